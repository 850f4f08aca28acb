"""The user's own file: what it sets, what goes before it, and that no project can be it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting
from crucible.images.oci.settings import Mirror, load_settings
from crucible.project.settings import gather

WHOLE = """
[registries]
mirrors = ["docker.io=mirror.example:5000/hub", "http://plain.example"]
insecure = ["registry.lan:5000"]
certs = "/etc/own-certs"

[images]
limit_mb = 100
"""


def write(directory: Path, text: str) -> dict[str, str]:
    """The variables with which it is found."""
    path = directory / "crucible" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return {"XDG_CONFIG_HOME": str(directory), "HOME": "/nonexistent"}


def test_everything_in_it_applies(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, WHOLE))
    assert settings.mirrors == (
        Mirror(registry="docker.io", host="mirror.example:5000", prefix="hub"),
        Mirror(registry="docker.io", host="plain.example", is_plain=True),
    )
    assert settings.insecure == {"registry.lan:5000"}
    assert settings.certificates[0] == Path("/etc/own-certs")
    assert settings.limit_bytes == 100 << 20


def test_a_variable_goes_before_it(tmp_path: Path) -> None:
    environment = {**write(tmp_path, WHOLE), "CRUCIBLE_INSECURE_REGISTRIES": "other.lan"}
    settings = load_settings(environment)
    assert settings.insecure == {"other.lan"}
    assert settings.limit_bytes == 100 << 20


def test_it_lies_in_the_home_or_where_a_variable_says(tmp_path: Path) -> None:
    (tmp_path / ".config").mkdir()
    write(tmp_path / ".config", WHOLE)
    assert load_settings({"HOME": str(tmp_path)}).insecure == {"registry.lan:5000"}
    elsewhere = tmp_path / "own.toml"
    elsewhere.write_text("[registries]\ninsecure = ['x.lan']\n")
    elsewhere.chmod(0o600)
    named = {"HOME": str(tmp_path), "CRUCIBLE_CONFIG": str(elsewhere)}
    assert load_settings(named).insecure == {"x.lan"}
    assert load_settings({**named, "CRUCIBLE_CONFIG": os.devnull}).insecure == frozenset()


@pytest.mark.parametrize(
    "environment",
    [{"CRUCIBLE_CONFIG": "config.toml"}, {"XDG_CONFIG_HOME": "."}, {"HOME": ""}, {}],
)
def test_it_is_never_found_where_one_happens_to_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    write(tmp_path, WHOLE)
    (tmp_path / "config.toml").write_text(WHOLE)
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(BadSetting):
        assert load_settings(environment).insecure == frozenset()


@pytest.mark.parametrize("section", ["registries", "images"])
@pytest.mark.parametrize("is_named", [False, True])
def test_no_project_can_say_where_images_come_from(
    tmp_path: Path, section: str, is_named: bool
) -> None:
    file = tmp_path / "crucible.toml"
    file.write_text(f"[{section}]\ninsecure = ['evil.example']\n")
    named = str(file) if is_named else None
    with pytest.raises(BadSetting, match="has no use for") as refused:
        gather({}, directory=str(tmp_path), named_file=named, variables={})
    assert "config.toml" in refused.value.hint


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_one_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    environment = write(tmp_path, WHOLE)
    (tmp_path / "crucible" / "config.toml").chmod(mode)
    with pytest.raises(BadSetting, match="can be changed by others"):
        load_settings(environment)


@pytest.mark.parametrize(
    "text, said",
    [
        ("[registry]", "no use for 'registry'"),
        ("[registries]\nmirror = []", "no use for 'mirror'"),
        ("[registries]\nmirrors = 'm.example'", "mirrors .* is 'm.example'"),
        ("[registries]\nmirrors = ['a.example,b.example']", "mirrors"),
        ("[registries]\nmirrors = [1]", "mirrors"),
        ("[registries]\ninsecure = ['http://r.example']", "insecure of .* is no registry"),
        ("[images]\nlimit_mb = true", "limit_mb"),
        ("[images]\nlimit_mb = -1", "limit_mb"),
        ("registries = 1", "registries"),
        ("[", "is not TOML"),
    ],
)
def test_what_means_nothing_is_refused_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        load_settings(write(tmp_path, text))


@given(data=st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode()))
def test_any_bytes_are_settings_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("user") / "config.toml"
    path.write_bytes(data)
    path.chmod(0o600)
    with contextlib.suppress(BadSetting):
        load_settings({"CRUCIBLE_CONFIG": str(path)})
