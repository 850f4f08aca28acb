"""What a killed process left in the cgroup of one login is removed by a command in another's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine

from crucible.backends.qemu import limits
from crucible.sandbox.records import SandboxRecord, open_records

pytestmark = pytest.mark.vm

ENTER = """
import os, sys
count = int(sys.argv[1])
for place in sys.argv[2 : 2 + count]:
    with open(place + "/cgroup.procs", "w") as file:
        file.write("0")
os.execv(sys.executable, [sys.executable, *sys.argv[2 + count :]])
"""


@pytest.fixture
def elsewhere() -> Iterator[list[Path]]:
    """A cgroup below ours in every hierarchy in which machines are limited, as another login has one."""
    places = [parent / f"login-{os.getpid()}" for parent, _ in limits._writable_parents()]
    assert places
    for place in places:
        place.mkdir()
    yield places
    for place in places:
        deadline = time.monotonic() + 120
        while place.exists() and time.monotonic() < deadline:
            try:
                place.rmdir()
            except OSError:
                time.sleep(0.05)
        assert not place.exists()


class ThereCommandLine(CommandLine):
    """The command line as a process in those cgroups."""

    def __init__(self, home: Path, places: list[Path]) -> None:
        super().__init__(home)
        where = [str(len(places)), *map(str, places)]
        self.argv = [sys.executable, "-c", ENTER, *where, "-m", "crucible.cli"]


def groups(places: list[Path]) -> list[Path]:
    return [group for place in places for group in place.glob("crucible-*")]


def record_of(home: Path) -> SandboxRecord:
    records = open_records(home)
    try:
        (found,) = records.sandboxes()
    finally:
        records.close()
    return found


def test_of_a_run(home: Path, elsewhere: list[Path]) -> None:
    there = ThereCommandLine(home, elsewhere)
    run = there.start("run", "--", "sh", "-c", "echo up; sleep 600", stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == b"up\n"
    assert len(groups(elsewhere)) == len(elsewhere)
    run.kill()
    run.communicate()
    assert CommandLine(home).ok("run", "--", "echo", "fine") == "fine\n"
    assert groups(elsewhere) == []


def test_of_a_machine_and_its_owner(home: Path, elsewhere: list[Path]) -> None:
    ThereCommandLine(home, elsewhere).ok("create", "box", "--start")
    record = record_of(home)
    assert record.pid is not None
    assert len(groups(elsewhere)) == len(elsewhere)
    os.kill(int((home / "owner.lock").read_text()), signal.SIGKILL)
    os.kill(record.pid, signal.SIGKILL)
    here = CommandLine(home)
    assert here("exec", "box", "true").returncode == 126
    assert groups(elsewhere) == []
    here.ok("rm", "box")


def test_of_a_machine_that_another_owner_stops(home: Path, elsewhere: list[Path]) -> None:
    ThereCommandLine(home, elsewhere).ok("create", "box", "--start")
    os.kill(int((home / "owner.lock").read_text()), signal.SIGKILL)
    here = CommandLine(home)
    assert here.ok("exec", "box", "echo", "on") == "on\n"
    here.ok("stop", "box")
    assert groups(elsewhere) == []
    here.ok("rm", "box")
