"""Limits: when one is met, the caller is told which and its value."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SMALL, CommandLine, own_home

pytestmark = pytest.mark.vm

FORKS = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait"


@pytest.fixture
def crucible(prepared_small: Path) -> Iterator[CommandLine]:
    """One of the limits is a small machine's memory."""
    with own_home(prepared_small) as home:
        yield CommandLine(home)


def audit(crucible: CommandLine) -> list[tuple[str, dict[str, Any]]]:
    with closing(sqlite3.connect(crucible.home / "records.sqlite")) as records:
        rows = records.execute("SELECT verb, detail FROM audit ORDER BY number").fetchall()
    return [(verb, json.loads(detail)) for verb, detail in rows]


@pytest.mark.parametrize(
    "options, command, status, name, value",
    [
        (("--timeout", "1s"), "sleep 100", 124, "time", "1 s"),
        (("--pids", "5"), FORKS, None, "processes", "5"),
        (("--max-output", "1M"), "yes", 137, "output", "1 MiB"),
        (
            ("--memory", f"{SMALL.memory_mib}M"),
            "head -c 1G /dev/zero | tail",
            None,
            "memory",
            f"{SMALL.memory_mib} MiB",
        ),
    ],
)
def test_the_limit_that_a_command_met_is_told(
    crucible: CommandLine,
    options: tuple[str, ...],
    command: str,
    status: int | None,
    name: str,
    value: str,
) -> None:
    done = crucible("run", *options, "sh", "-c", command)
    assert done.returncode != 0
    assert status is None or done.returncode == status
    assert f"({value})" in done.stderr.decode()
    assert options[0].encode() in done.stderr
    assert audit(crucible)[-1][1]["limit"] == {"name": name, "value": value}


def test_output_up_to_its_limit_is_all_there(crucible: CommandLine) -> None:
    done = crucible("run", "--max-output", "1M", "sh", "-c", "head -c 1048576 /dev/zero")
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 1 << 20, b"")
    done = crucible("run", "--max-output", "1M", "sh", "-c", "head -c 1048577 /dev/zero; sleep 100")
    assert (done.returncode, len(done.stdout)) == (137, 1 << 20)


def test_a_limit_met_in_a_named_sandbox_is_in_inspect_and_holds_for_each_command(
    crucible: CommandLine,
) -> None:
    crucible.ok("create", "box", "--max-output", "1M", "--start")
    try:
        for _ in range(2):
            assert crucible("exec", "box", "yes").returncode == 137
        assert crucible("exec", "box", "echo", "fine").stdout == b"fine\n"
        assert "output: 1 MiB" in json.loads(crucible.ok("inspect", "--json", "box"))["note"]
        crucible.ok("exec", "--detach", "box", "yes")
        while [verb for verb, _ in audit(crucible)].count("exec") < 4:
            time.sleep(0.1)
        assert audit(crucible)[-1][1]["limit"] == {"name": "output", "value": "1 MiB"}
    finally:
        crucible("rm", "--force", "box")


def state(crucible: CommandLine, name: str) -> dict[str, Any]:
    found = json.loads(crucible.ok("list", "--json"))
    return next((record for record in found if record["name"] == name), {})


def test_a_sandbox_that_nobody_uses_is_stopped_and_can_be_started_again(
    crucible: CommandLine, tmp_path: Path
) -> None:
    """The first command of its project keeps it from being idle, without a gap after its start."""
    (tmp_path / ".devcontainer.json").write_text(
        json.dumps({"image": "base", "postCreateCommand": "sleep 3; echo still here"})
    )
    made = crucible("create", "box", "--idle-timeout", "1s", "--start", "--dir", tmp_path)
    try:
        assert (made.returncode, b"still here\n" in made.stderr) == (0, True), made.stderr
        while state(crucible, "box")["state"] != "stopped":
            time.sleep(0.1)
        assert "idle timeout" in state(crucible, "box")["note"]
        assert ("expire", {"limit": {"name": "idle", "value": "1 s"}}) in audit(crucible)
        crucible.ok("start", "box")
        crucible("exec", "box", "true")
    finally:
        crucible("rm", "--force", "box")


def test_a_sandbox_whose_time_is_over_is_removed(crucible: CommandLine) -> None:
    crucible.ok("create", "keeper", "--start")
    crucible.ok("create", "brief", "--ttl", "1s", "--start")
    try:
        while state(crucible, "brief"):
            time.sleep(0.1)
        assert ("expire", {"limit": {"name": "ttl", "value": "1 s"}}) in audit(crucible)
        assert state(crucible, "keeper")["state"] == "running"
    finally:
        crucible("rm", "--force", "keeper")
