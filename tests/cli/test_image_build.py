"""`crucible image build`, as a process of its own, where no machine is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.images.registry import RunningRegistry, make_image, running_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def crucible(tmp_path: Path) -> CommandLine:
    return home(tmp_path / "home")


def home(directory: Path) -> CommandLine:
    line = CommandLine(directory)
    line.environment["HOME"] = str(directory.parent)
    return line


@pytest.fixture
def context(tmp_path: Path) -> Path:
    directory = tmp_path / "My App"
    directory.mkdir()
    (directory / "file").write_text("content")
    (directory / "Dockerfile").write_text("FROM scratch\nCOPY file /\nLABEL a=b\n")
    return directory


def test_what_is_built_upon_is_pulled_if_it_is_not_here_and_may_be(
    registry: RunningRegistry, crucible: CommandLine, context: Path
) -> None:
    base = registry.push("base/of:1", make_image({"below": b"x"}, config={"User": "7"}))
    (context / "Dockerfile").write_text(f"FROM {base}\nCOPY file /above\n")
    refused = crucible("image", "build", "-t", "app:1", context)
    assert (refused.returncode, b"(image-missing)" in refused.stderr) == (126, True)
    crucible.environment["CRUCIBLE_PULL"] = "missing"
    assert crucible.ok("image", "build", "-t", "app:1", context) == "app:1\n"
    shown = json.loads(crucible.ok("image", "inspect", "app:1", "--json", "--verify"))
    assert (len(shown["layers"]), shown["user"]) == (2, "7")
    assert set(crucible.ok("image", "list", "-q").split()) == {"app:1", base}


def test_a_build_says_what_it_does_on_stderr_and_the_name_on_stdout(
    crucible: CommandLine, context: Path
) -> None:
    done = crucible("image", "build", context)
    assert (done.returncode, done.stdout) == (0, b"localhost/my-app:latest\n")
    assert done.stderr.decode().splitlines() == [
        "[1/3] FROM scratch",
        "[2/3] COPY file /",
        "[3/3] LABEL a",
        "1 steps were done, 0 came from the cache",
    ]
    again = crucible("image", "build", context)
    assert b"0 steps were done, 1 came from the cache" in again.stderr
    assert b"1 steps" in crucible("image", "build", "--no-cache", context).stderr


def test_pruning_everything_empties_the_cache(crucible: CommandLine, context: Path) -> None:
    crucible.ok("image", "build", context)
    assert crucible.ok("image", "list", "-q").split() == ["localhost/my-app:latest"]
    crucible.ok("image", "prune", "--all")
    assert crucible.ok("image", "list", "-q") == ""
    assert b"1 steps were done" in crucible("image", "build", context).stderr


def test_the_same_sources_give_the_same_image_in_another_home(
    crucible: CommandLine, context: Path, tmp_path: Path
) -> None:
    digests = set()
    for line in (crucible, home(tmp_path / "other")):
        line.environment["SOURCE_DATE_EPOCH"] = "1700000000"
        line.ok("image", "build", "-t", "app", context)
        (context / "file").touch()
        digests.add(json.loads(line.ok("image", "inspect", "app", "--json"))["digest"])
    assert len(digests) == 1


def test_a_recipe_is_found_by_its_name(crucible: CommandLine, context: Path) -> None:
    (context / "Dockerfile").unlink()
    (context / "recipe.toml").write_text('base = "scratch"\nuser = "5"\n[files]\n"/a" = "file"\n')
    crucible.ok("image", "build", "-t", "app", context)
    assert json.loads(crucible.ok("image", "inspect", "app", "--json"))["user"] == "5"


@pytest.mark.parametrize(
    "words, said",
    [
        (("-f", "nosuch"), "There is no 'nosuch'"),
        (("--build-arg", "X=1"), "has no ARG 'X'"),
        (("--target", "x"), "has no stage 'x'"),
        (("-t", "Bad Name"), "Bad Name"),
        (("--network", "some"), "some"),
        (("--memory", "lots"), "'lots' is not a size"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    crucible: CommandLine, context: Path, words: tuple[str, ...], said: str
) -> None:
    done = crucible("image", "build", *words, context)
    assert done.returncode != 0
    assert said in done.stderr.decode()
    assert b"[1/" not in done.stderr


def test_a_line_that_is_not_supported_is_named(crucible: CommandLine, context: Path) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nVOLUME /x\n")
    done = crucible("image", "build", context)
    assert done.returncode == 126
    assert b"In line 2 of Dockerfile: VOLUME is not supported (build-file-invalid)" in done.stderr


def test_a_context_that_is_no_directory_or_a_time_that_is_none_is_refused(
    crucible: CommandLine, context: Path
) -> None:
    assert b"is not a directory" in crucible("image", "build", context / "file").stderr
    crucible.environment["SOURCE_DATE_EPOCH"] = "yesterday"
    assert b"SOURCE_DATE_EPOCH cannot be" in crucible("image", "build", context).stderr
