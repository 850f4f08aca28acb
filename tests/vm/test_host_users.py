"""Two homes of root at once: their machines are users of their own, and stay so when their owner is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.conftest import CommandLine, own_home

from crucible.sandbox import host_users
from crucible.sandbox.records import open_records

pytestmark = pytest.mark.vm


def users_of_machines(home: Path) -> set[int]:
    """As the kernel tells them."""
    records = open_records(home)
    pids = [record.pid for record in records.sandboxes()]
    records.close()
    lines = [
        line
        for pid in pids
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("Uid:")
    ]
    return {int(line.split()[1]) for line in lines}


def test_machines_of_two_homes_are_never_one_user(prepared_home: Path) -> None:
    with own_home(prepared_home) as one, own_home(prepared_home) as two:
        first, second = CommandLine(one), CommandLine(two)
        first.ok("create", "box", "--start")
        second.ok("create", "box", "--start")
        os.kill(int((one / "owner.lock").read_text()), signal.SIGKILL)
        second.ok("fork", "box", "--count", "2")
        users = users_of_machines(one) | users_of_machines(two)
        assert len(users) == 4
        assert min(users) >= host_users.FIRST
        first.ok("rm", "--force", "box")
        for name in second.ok("list", "--quiet").split():
            second.ok("rm", "--force", name)
        assert not {uid for uid in users if (host_users.PLACE / str(uid)).exists()}


def test_a_sandbox_that_is_stopped_gives_its_user_back(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.ok("create", "box", "--start")
    [uid] = users_of_machines(home)
    crucible.ok("stop", "box")
    assert not (host_users.PLACE / str(uid)).exists()
    crucible.ok("start", "box")
    assert len(users_of_machines(home)) == 1
    crucible.ok("rm", "--force", "box")
