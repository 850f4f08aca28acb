"""What goes along without being named: only what is meant to, only so much, and never silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crucible.errors import BadSetting, PathRefused
from crucible.project import giving
from crucible.project.giving import give
from crucible.project.passing import LARGEST_BYTES, pass_variables, stays


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "MY_SECRET_THING", "DB_PASSWORD", "STRIPE_API_KEY", "AWS_REGION", "aws_profile",
        "ANTHROPIC_API_KEY", "DATABASE_URL", "HTTPS_PROXY", "https_proxy", "SENTRY_DSN", "SSH_AUTH_SOCK",
        "PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "XDG_RUNTIME_DIR", "DISPLAY", "BASH_ENV", "CRUCIBLE_HOME",
    ],
)  # fmt: skip
def test_credentials_and_what_belongs_to_the_host_stay(name: str) -> None:
    assert stays(name)
    assert pass_variables(["*"], {name: "x", "LANG": "C"}) == ({"LANG": "C"}, 1)


@pytest.mark.parametrize("name", ["LANG", "EDITOR", "TZ", "MY_SETTING", "COLUMNS", "STAGE"])
def test_others_are_passed_on(name: str) -> None:
    assert stays(name) is None


def test_a_variable_that_is_named_is_passed_on_whatever_it_is() -> None:
    assert pass_variables(["MY_TOKEN"], {"MY_TOKEN": "x", "LANG": "C"}) == ({"MY_TOKEN": "x"}, 0)
    both = pass_variables(["*", "MY_TOKEN"], {"MY_TOKEN": "x", "LANG": "C", "HOME": "/"})
    assert both.variables == {"MY_TOKEN": "x", "LANG": "C"}


def test_a_variable_that_is_not_set_is_refused() -> None:
    with pytest.raises(BadSetting, match="not set here"):
        pass_variables(["NOSUCH"], {})


def test_more_than_fits_is_refused_with_the_figures() -> None:
    with pytest.raises(BadSetting, match=str(LARGEST_BYTES)):
        pass_variables(["*"], {"BIG": "x" * LARGEST_BYTES})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    project = home / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return home


def test_all_that_is_given_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"LANG": "C", "A_TOKEN": "x"} | {"HOME": str(home)})
    fields: dict[str, Any] = {"environment": {"LANG": "own"}}
    source, told = give(
        fields, None, copies_directory=True, copies_home=True, variables=["*", "A_TOKEN"]
    )
    assert source == str(home / "project")
    assert fields == {
        "environment": {"LANG": "own", "A_TOKEN": "x"}, "mounts": [f"{home}:~:home"],
    }  # fmt: skip
    (line,) = told
    for said in (str(home / "project"), f"{home} without caches and credentials", "2 variables"):
        assert said in line
    assert "x" not in line.split("variables")[1]


@pytest.mark.parametrize("name", ["MOST_FILES", "LARGEST_BYTES"])
def test_a_home_that_is_too_large_is_refused_with_the_figures(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(giving, name, 2)
    for number in range(3):
        (home / f"file{number}").write_text("x")
    with pytest.raises(PathRefused, match="3 files") as refused:
        give({}, None, copies_directory=False, copies_home=True, variables=[])
    assert "--no-mount-home" in refused.value.hint


@pytest.mark.parametrize("place", [".ssh", ".aws/sso", ".config/gcloud"])
def test_a_directory_of_credentials_is_not_copied_because_one_stands_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (home / place).mkdir(parents=True)
    monkeypatch.chdir(home / place)
    with pytest.raises(PathRefused, match="may hold credentials") as refused:
        give({}, None, copies_directory=True, copies_home=False, variables=[])
    assert "--no-mount-cwd" in refused.value.hint


def test_what_stays_at_home_does_not_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "MOST_FILES", 1)
    for name in (".cache", ".ssh", "src/node_modules"):
        (home / name).mkdir(parents=True)
        (home / name / "one").touch()
        (home / name / "two").touch()
    give({}, None, copies_directory=False, copies_home=True, variables=[])
