"""Lists and inspections, from real records."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from crucible.cli.main import main
from crucible.sandbox.processes import start_mark
from crucible.sandbox.records import Records, SandboxRecord, open_records, sandbox_directory
from crucible.sandbox.spec import SandboxSpec


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path))
    return open_records(tmp_path)


def add(records: Records, name: str, **fields: Any) -> SandboxRecord:
    return records.add(
        SandboxRecord(
            **{
                "id": f"id-{name}",
                "name": name,
                "state": "stopped",
                "spec": SandboxSpec(environment={"SECRET": "hush"}),
                "directory": sandbox_directory(records.home, f"id-{name}"),
                "created_at": time.time(),
                **fields,
            }
        )
    )


def test_a_list_is_a_table(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    add(records, "box", isolation="software-vm")
    add(records, "another-box", state="created")
    assert main(["ls"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "STATE", "IMAGE", "MEMORY", "CPUS", "ISOLATION", "CREATED"]
    assert [row.split()[:2] for row in rows] == [["box", "stopped"], ["another-box", "created"]]


def test_a_list_can_be_names_or_json(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    add(records, "box")
    assert main(["list", "-q"]) == 0
    assert capsys.readouterr().out == "box\n"
    assert main(["list", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["state"], found["spec"]["memory_mib"]) == ("box", "stopped", 512)


def test_no_sandboxes_are_no_output(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "crucible create" in shown.err


def test_a_sandbox_whose_process_is_gone_is_not_called_running(
    records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = start_mark(os.getpid()) or ""
    add(records, "alive", state="running", pid=os.getpid(), pid_started=mark)
    add(records, "dead", state="running", pid=os.getpid(), pid_started="other:1")
    add(records, "left", state="starting", is_temporary=True)
    assert main(["list", "--json"]) == 0
    states = {found["name"]: found["state"] for found in json.loads(capsys.readouterr().out)}
    assert states == {"alive": "running", "dead": "stopped", "left": "broken"}


def test_inspection_names_variables_but_not_their_values(
    records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    add(records, "box", note="a\x1bnote")
    assert main(["inspect", "box"]) == 0
    shown = capsys.readouterr().out
    assert "SECRET" in shown
    assert "hush" not in shown
    assert "\x1b" not in shown


def test_inspection_can_be_json(records: Records, capsys: pytest.CaptureFixture[str]) -> None:
    add(records, "box")
    assert main(["inspect", "--json", "box"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "id-box"
