"""What may be a credential stays at home, unless it is named itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.workspace.test_packing import members

from crucible.sandbox.workspace.credentials import (
    CACHES,
    PLACES,
    is_credential,
    is_named_credential,
    withheld_of,
)
from crucible.sandbox.workspace.packing import pack_tree


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def plant(top: Path, *names: str) -> None:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")


def packed(source: Path, *, include: bool = False, is_home: bool = False) -> set[str]:
    own_state = Path.home() / ".local/share/crucible"
    withheld = withheld_of(source, include=include, own_state=own_state, is_home=is_home)
    return set(members(pack_tree(source, withheld=withheld)))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.path))
def test_every_place_is_recognised_in_a_home_and_deeper(place: tuple[str, str]) -> None:
    path = place[0].encode()
    for name in (path, b"people/me/" + path, path.upper()):
        assert is_credential(name, is_directory=False)
        assert is_credential(name, is_directory=True)
    assert not is_credential(path + b"x", is_directory=True)
    assert place[1]


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "a/.env.local",
        ".ENV.production",
        "id_rsa",
        "deep/id_ed25519",
        "server.pem",
        "tls.KEY",
    ],
)
def test_files_are_recognised_by_their_names(name: str) -> None:
    assert is_credential(name.encode(), is_directory=False)


@pytest.mark.parametrize(
    "name",
    [
        ".env.example", ".env.sample", ".env.template", "environment", ".envrc", "id_rsa.pub", "key",
        "monkey", "certifi/cacert.pem", "ssh/config", "aws.py", ".npmrc",
    ],
)  # fmt: skip
def test_others_go_along(name: str) -> None:
    assert not is_credential(name.encode(), is_directory=False)


@pytest.mark.parametrize("name", [".env", "server.key"])
def test_a_directory_of_such_a_name_goes_along(name: str) -> None:
    assert not is_credential(name.encode(), is_directory=True)


def test_credentials_of_a_project_stay_and_are_told(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    plant(project, "main.py", ".env", ".npmrc", "deep/id_rsa", ".ssh/config", "tls.pem")
    assert packed(project) == {"main.py", ".npmrc", "deep"}
    withheld = withheld_of(project, include=False, own_state=home)
    assert withheld is not None
    list(pack_tree(project, withheld=withheld))
    told = withheld.told()
    assert "4 (.env, .ssh, tls.pem, ...)" in told
    assert "--include-credentials" in told


def test_they_go_along_when_asked_for(home: Path, tmp_path: Path) -> None:
    plant(tmp_path / "project", "main.py", ".env", ".ssh/id_rsa")
    assert packed(tmp_path / "project", include=True) == {"main.py", ".env", ".ssh", ".ssh/id_rsa"}


@pytest.mark.parametrize("named", [".ssh", ".ssh/deep", ".config/gcloud"])
def test_who_names_a_credential_gets_all_of_it(home: Path, named: str) -> None:
    plant(home, f"{named}/id_rsa", f"{named}/x.pem")
    assert packed(home / named) == {"id_rsa", "x.pem"}


def test_files_can_be_named_themselves(home: Path) -> None:
    plant(home, ".npmrc", ".netrc", "plain")
    assert is_named_credential(home / ".npmrc")
    assert is_named_credential(home / ".netrc")
    assert not is_named_credential(home / "plain")
    assert not is_named_credential(home)


def test_a_home_goes_without_credentials_caches_and_our_own_state(home: Path) -> None:
    plant(
        home, ".bashrc", "src/main.py", ".ssh/id_rsa", ".npmrc", ".aws/credentials", "src/.env",
        ".config/gcloud/x", ".config/app/x", ".mozilla/firefox/logins.json", ".docker/config.json",
        ".local/share/crucible/records.sqlite", "src/node_modules/x/y",
        *(f"{cache}/x" for cache in CACHES if "history" not in cache),
    )  # fmt: skip
    found = packed(home, is_home=True)
    assert {name for name in found if (home / name).is_file()} == {
        ".bashrc", "src/main.py", ".config/app/x",
    }  # fmt: skip
    # Not even then: a home is copied because a profile says so.
    assert packed(home, is_home=True, include=True) == found


def test_our_own_state_stays_also_where_a_directory_was_named(home: Path) -> None:
    plant(home, ".local/share/crucible/records.sqlite", "file")
    assert packed(home) == {".local", ".local/share", "file"}


def test_a_link_to_keys_is_copied_as_a_link_and_nothing_behind_it(
    home: Path, tmp_path: Path
) -> None:
    plant(home, ".ssh/id_rsa")
    (home / ".ssh/id_rsa").write_text("very private")
    project = tmp_path / "project"
    project.mkdir()
    (project / "docs").symlink_to(home / ".ssh")
    (project / "notes").symlink_to(home / ".ssh/id_rsa")
    data = b"".join(pack_tree(project))
    assert b"very private" not in data
    assert packed(project) == {"docs", "notes"}


def test_names_that_are_no_text_do_no_harm(home: Path, tmp_path: Path) -> None:
    project = os.fsencode(tmp_path / "project")
    Path(os.fsdecode(project)).mkdir()
    Path(os.fsdecode(project + b"/\xff.pem")).write_text("x")
    withheld = withheld_of(Path(os.fsdecode(project)), include=False, own_state=home)
    assert withheld is not None
    list(pack_tree(Path(os.fsdecode(project)), withheld=withheld))
    assert withheld.found == [b"\xff.pem"]
