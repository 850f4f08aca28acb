"""`crucible runs` reads the database and files of exports, and needs nobody else for it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from tests.ledger.records import RUN, recorded

from crucible.cli.main import main
from crucible.ledger.ledger import Ledger
from crucible.store.database import Database


@pytest.fixture
def runs_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with one run, and nobody who holds it."""
    home = tmp_path / "home"
    database = Database(f"sqlite:///{home / 'crucible.db'}")
    ledger = Ledger(home, database)
    asyncio.run(recorded(ledger))
    ledger.close()
    database.close()
    monkeypatch.setenv("CRUCIBLE_HOME", str(home))
    monkeypatch.setenv("CRUCIBLE_CONFIG", "/dev/null")
    monkeypatch.delenv("CRUCIBLE_DATABASE", raising=False)
    return home


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    return capsys


def test_runs_are_listed_and_shown(runs_home: Path, said: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    heading, line = said.readouterr().out.splitlines()
    assert heading.split() == ["RUN", "BEGUN", "ENTRIES", "TOKENS", "USD", "MODELS"]
    assert line.split()[0] == RUN
    assert line.split()[-4:] == ["4", "60/6", "0.0000", "small"]
    assert main(["runs", "list", "--json"]) == 0
    (listed,) = json.loads(said.readouterr().out)
    assert (listed["id"], listed["count"], listed["cost_micros"]) == (RUN, 4, 21)
    assert main(["runs", "show", RUN]) == 0
    assert "tool-call" in said.readouterr().out
    assert main(["runs", "show", RUN, "--json"]) == 0
    assert len(json.loads(said.readouterr().out)["entries"]) == 4
    assert main(["runs", "show", RUN, "--entry", "4"]) == 0
    assert "output 3" in said.readouterr().out
    assert main(["runs", "show", RUN, "--entry", "9"]) == 126


def test_without_runs_there_is_nothing_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path))
    assert main(["runs", "list"]) == 0
    told = said.readouterr()
    assert (told.out, "no runs" in told.err) == ("", True)
    assert main(["runs", "show", RUN]) == 126
    assert main(["runs", "verify", RUN]) == 126
    assert "There is no run" in said.readouterr().err


def test_a_run_and_its_exports_are_verified(
    runs_home: Path, tmp_path: Path, said: pytest.CaptureFixture[str]
) -> None:
    plain, archive, key = (tmp_path / name for name in ("run.json", "run.zip", "key.pem"))
    assert main(["runs", "key"]) == 0
    key.write_text(said.readouterr().out)
    assert main(["runs", "export", RUN, "-o", str(plain)]) == 0
    assert main(["runs", "export", RUN, "-o", str(archive), "--with-contents"]) == 0
    assert main(["runs", "export", RUN]) == 0
    assert json.loads(said.readouterr().out)["signatures"]
    assert main(["runs", "export", RUN, "--with-contents"]) == 126
    for words in ([RUN], [str(plain)], [str(archive)], [str(plain), "--key", str(key)]):
        assert main(["runs", "verify", *words]) == 0
        assert said.readouterr().out == f"{RUN}: 4 entries, as they were signed\n"
    assert main(["runs", "verify", RUN, "--json"]) == 0
    assert json.loads(said.readouterr().out)["is_whole"] is True


def test_an_export_is_verified_where_no_state_is(
    runs_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    said: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    plain, key = tmp_path / "run.json", tmp_path / "key.pem"
    main(["runs", "key"])
    key.write_text(said.readouterr().out)
    main(["runs", "export", RUN, "-o", str(plain)])
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path / "elsewhere"))
    assert main(["runs", "verify", str(plain), "--key", str(key)]) == 0
    assert main(["runs", "verify", str(plain)]) == 125
    assert "--key" in said.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_what_was_changed_ends_with_one_and_names_the_entry(
    runs_home: Path, said: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(runs_home / "crucible.db") as raw:
        raw.execute("UPDATE ledger_entries SET exit_status = 0 WHERE number = 3")
    raw.close()
    assert main(["runs", "verify", RUN]) == 1
    assert said.readouterr().out.startswith(f"{RUN}: entry 3: entry-changed: ")
    assert main(["runs", "verify", RUN, "--json"]) == 1
    assert json.loads(said.readouterr().out)["findings"][0]["entry"] == 3
    assert main(["runs", "export", RUN]) == 125


def test_erasing_is_told_by_verify(runs_home: Path, said: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "erase", RUN]) == 0
    assert main(["runs", "verify", RUN]) == 0
    told = said.readouterr()
    assert told.out == f"{RUN}: 5 entries, as they were signed\n"
    assert "7 erased" in told.err
    assert main(["runs", "show", RUN, "--entry", "4"]) == 0
    assert "(gone)" in said.readouterr().out


@pytest.mark.parametrize("words", [["list", "--limit", "many"], ["show", RUN, "--entry", "-1"]])
def test_a_number_that_is_none_is_refused(
    runs_home: Path, words: list[str], said: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", *words]) == 126
