"""`run` and `create` with an image that is not here, against a registry of the tests' own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.images.layers.packing import Item, tar_of
from tests.images.registry import RunningRegistry, make_image, running_registry

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def online(crucible: CommandLine, tmp_path: Path) -> CommandLine:
    """May pull, but reaches nothing outside: every way out of this machine leads to a closed port."""
    crucible.environment |= {
        "CRUCIBLE_PULL": "missing",
        "HOME": str(tmp_path),
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
    }
    return crucible


@pytest.fixture(scope="module")
def image(registry: RunningRegistry) -> str:
    found = shutil.which("busybox")
    assert found is not None
    layer = tar_of([Item("busybox", data=Path(found).read_bytes(), mode=0o755)])
    config = {"Entrypoint": ["/busybox"], "Cmd": ["echo", "pulled"], "Env": ["A=b"]}
    return registry.push("demand/box:1", make_image(layer, config=config))


def test_a_missing_image_is_pulled_and_told_once(online: CommandLine, image: str) -> None:
    first = online("run", "--image", image, "-m", "256M")
    assert (first.returncode, first.stdout) == (0, b"pulled\n"), first.stderr
    assert f"Image {image} is not here; pulling it" in first.stderr.decode()
    second = online("run", "--image", image, "-m", "256M")
    assert (second.returncode, second.stdout, second.stderr) == (0, b"pulled\n", b"")
    online.ok("create", "box", "--image", image, "-m", "256M", "--start")
    assert online.ok("exec", "box", "/busybox", "echo", "up") == "up\n"
    online.ok("rm", "--force", "box")


def test_the_owner_pulls_for_create(online: CommandLine, image: str) -> None:
    done = online("create", "box", "--image", image, "-m", "256M")
    assert done.returncode == 0, done.stderr
    assert b"is not here; pulling it" in done.stderr
    online.ok("rm", "box")


def test_without_its_registry_an_image_is_an_error_that_says_so(online: CommandLine) -> None:
    done = online("run", "--image", "127.0.0.1:1/none:1", "true")
    assert done.returncode == 125
    assert b"Registry 127.0.0.1:1 cannot be reached" in done.stderr


def test_a_guessed_image_gives_way_to_base_when_it_cannot_be_had(
    online: CommandLine, tmp_path: Path
) -> None:
    del online.environment["CRUCIBLE_IMAGE"]
    for _ in range(2):
        done = online("run", "python3", "-c", "print(6 * 7)", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, b"42\n"), done.stderr
        assert b"image base serves instead of python:3.12-alpine" in done.stderr
    done = online("run", "cargo", "build", cwd=tmp_path)
    assert done.returncode == 125
    assert b"docker.io" in done.stderr
