"""`crucible memory`, as a person and as a script use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.memory.conftest import SharedEmbedder

from crucible.cli.main import main


class Told:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        found = main(["memory", *words])
        told = self._capsys.readouterr()
        assert found == status, told.err
        self.err = told.err
        return told.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words))


@pytest.fixture
def crucible(
    tmp_path: Path,
    sqlite_template: Path,
    embedder: SharedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> Told:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "crucible.db").write_bytes(sqlite_template.read_bytes())
    # The model's file is made once for all tests.
    request.getfixturevalue("run")(embedder.embed(["made"]))
    (home / "models").symlink_to(embedder.home / "models")
    monkeypatch.setenv("CRUCIBLE_HOME", str(home))
    monkeypatch.setenv("CRUCIBLE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("CRUCIBLE_DATABASE", raising=False)
    return Told(capsys)


def test_what_is_added_is_listed_recalled_replaced_and_forgotten(
    crucible: Told, tmp_path: Path
) -> None:
    crucible("list")
    assert "Nothing is remembered" in crucible.err
    crucible("add", "I", "live", "in", "Lisbonquux")
    fact = crucible("add", "I moved to Portoquux").strip()
    assert "replaces 'Lives in Lisbonquux'" in crucible.err
    assert [one["text"] for one in crucible.json("list", "--json")] == ["Lives in Portoquux"]
    assert f"replaced by {fact}" in crucible("list", "--all")
    recalled = crucible.json("recall", "--json", "which town is my flat in?")
    assert [one["text"] for one in recalled["items"]] == ["Lives in Portoquux"]
    assert "near" in recalled["items"][0]["reason"]
    assert "WHY" in crucible("recall", "Portoquux")
    crucible("forget", fact, "--history")
    assert crucible.json("list", "--all", "--json") == []
    crucible("forget", fact, status=126)
    assert "memory-missing" in crucible.err
    held = [
        path
        for path in (tmp_path / "home").rglob("*")
        if path.is_file() and b"quux" in path.read_bytes()
    ]
    assert held == []


def test_it_is_edited_pinned_exported_imported_and_turned_off(
    crucible: Told, tmp_path: Path
) -> None:
    fact = crucible("add", "--kind", "goal", "Finish the boat").strip()
    crucible("edit", fact, "Finish", "the", "ship")
    crucible("pin", fact)
    (listed,) = crucible.json("list", "--json")
    assert (listed["text"], listed["kind"], listed["pinned"]) == ("Finish the ship", "goal", True)
    crucible("unpin", fact)
    (tmp_path / "e.json").write_text(crucible("export"))
    crucible("import", "--user", "bob", str(tmp_path / "e.json"))
    assert "1 taken" in crucible.err
    assert len(crucible.json("list", "--user", "bob", "--json")) == 1
    crucible("off")
    crucible("add", "I live in Porto", status=126)
    assert "memory-off" in crucible.err
    crucible("recall", "ship")
    assert "off" in crucible.err
    crucible("on")
    assert "Finish the ship" in crucible("recall", "ship")
    crucible("forget", "--all", status=126)
    crucible("forget", "--all", "--yes")
    assert crucible.json("list", "--json") == []
    assert len(crucible.json("list", "--user", "bob", "--json")) == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{" * 100_000, b'{"format": 1}'])
def test_a_file_that_is_no_export_is_refused(
    crucible: Told, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.json").write_bytes(content)
    crucible("import", str(tmp_path / "x.json"), status=126)
    crucible("import", str(tmp_path / "missing.json"), status=126)


def test_a_secret_is_refused_and_not_repeated(crucible: Told) -> None:
    crucible("add", "my password is hunter2", status=126)
    assert "memory-secret" in crucible.err
    assert "hunter2" not in crucible.err
