"""The daemon from outside: takes over, stays, drains, and leaves without losing a named sandbox."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine, owner_pid
from tests.e2e.leftovers import leftovers

pytestmark = pytest.mark.vm

COUNT = """
import time
for number in range(%d):
    print(number, flush=True)
    time.sleep(0.01)
"""


def status(crucible: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crucible("daemon", "status", "--json").stdout)
    return found


def test_without_a_daemon_its_status_says_so_and_stopping_it_is_no_error(
    crucible: CommandLine,
) -> None:
    asked = crucible("daemon", "status")
    assert (asked.returncode, asked.stdout) == (3, b"")
    assert b"not running" in asked.stderr
    assert status(crucible) == {"running": False}
    assert b"not running" in crucible("daemon", "stop").stderr
    assert owner_pid(crucible.home) is None


def test_the_daemon_takes_over_a_running_sandbox_and_the_command_somebody_watches(
    crucible: CommandLine,
) -> None:
    crucible.ok("create", "box", "--start")
    before = owner_pid(crucible.home)
    watcher = crucible.start("exec", "box", "python3", "-c", COUNT % 300, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    seen = os.read(watcher.stdout.fileno(), 100)
    crucible.ok("daemon", "start")
    found = status(crucible)
    assert (found["running"], found["held"]) == (True, 1)
    assert found["pid"] == owner_pid(crucible.home) != before
    output, _ = watcher.communicate(timeout=240)
    assert [int(word) for word in (seen + output).split()] == list(range(300))
    crucible.ok("daemon", "stop")
    assert crucible.ok("exec", "box", "echo", "still here") == "still here\n"
    # The command started another program on demand, which leaves when it is told to as well.
    assert owner_pid(crucible.home) is not None
    crucible.ok("daemon", "stop")
    assert owner_pid(crucible.home) is None
    crucible.ok("rm", "--force", "box")
    assert leftovers(crucible.home) == []


def test_the_daemon_stays_when_there_is_nothing_to_hold(crucible: CommandLine) -> None:
    crucible.environment["CRUCIBLE_OWNER_IDLE_S"] = "1"
    crucible.ok("daemon", "start")
    pid = status(crucible)["pid"]
    time.sleep(2.5)
    assert status(crucible)["pid"] == pid
    crucible.ok("daemon", "stop")
    assert owner_pid(crucible.home) is None


def test_starting_it_several_times_at_once_starts_one(crucible: CommandLine) -> None:
    starters = [crucible.start("daemon", "start") for _ in range(4)]
    assert [starter.wait(timeout=240) for starter in starters] == [0, 0, 0, 0]
    assert status(crucible)["running"] is True
    assert b"was running already" in crucible("daemon", "start").stderr
    crucible.ok("daemon", "stop")


def test_in_the_foreground_it_serves_until_it_is_told_to_leave(crucible: CommandLine) -> None:
    supervised = crucible.start("daemon", "start", "--foreground", stderr=subprocess.PIPE)
    while not status(crucible)["running"]:
        assert supervised.poll() is None
        time.sleep(0.05)
    second = crucible("daemon", "start", "--foreground")
    assert (second.returncode, b"(daemon-running)" in second.stderr) == (126, True)
    supervised.send_signal(signal.SIGTERM)
    _, told = supervised.communicate(timeout=240)
    assert supervised.returncode == 0
    assert b"holds 0 sandboxes" in told


def test_a_killed_daemon_is_followed_by_one_that_adopts_what_runs(crucible: CommandLine) -> None:
    crucible.ok("daemon", "start")
    crucible.ok("create", "box", "--start")
    watcher = crucible.start("exec", "box", "python3", "-c", COUNT % 300, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    seen = os.read(watcher.stdout.fileno(), 100)
    os.kill(status(crucible)["pid"], signal.SIGKILL)
    crucible.ok("daemon", "start")
    output, _ = watcher.communicate(timeout=240)
    assert [int(word) for word in (seen + output).split()] == list(range(300))
    crucible.ok("rm", "--force", "box")
    crucible.ok("daemon", "stop")
    assert leftovers(crucible.home) == []


def test_it_serves_http_as_well_when_it_is_asked_to(crucible: CommandLine) -> None:
    crucible.ok("daemon", "start", "--http", "127.0.0.1:0")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(crucible.home / "http.sock"))
        caller.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert caller.makefile("rb").readline().startswith(b"HTTP/1.1 200 ")
    crucible.ok("daemon", "stop")


def test_a_port_that_is_taken_is_told_and_no_daemon_is_left(crucible: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = crucible("daemon", "start", "--http", where)
    assert (refused.returncode, b"(door-taken)" in refused.stderr) == (126, True), refused.stderr
    assert status(crucible) == {"running": False}


@pytest.mark.parametrize("where", ["", "7070", "host", "host:", ":1", "host:70000", "host:1x"])
def test_an_address_that_is_none_is_refused(crucible: CommandLine, where: str) -> None:
    assert crucible("daemon", "start", f"--http={where}").returncode == 126


def test_its_log_can_be_read_and_followed(crucible: CommandLine) -> None:
    assert b"no log yet" in crucible("daemon", "logs").stderr
    crucible.ok("daemon", "start")
    assert "holds 0 sandboxes" in crucible.ok("daemon", "logs", "--lines", "1")
    assert crucible.ok("daemon", "logs", "-n", "0") == ""
    follower = crucible.start("daemon", "logs", "-f", "-n", "1", stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline().endswith(b" holds 0 sandboxes\n")
    with Path(crucible.home, "owner.log").open("a") as log:
        log.write("a line that comes\n")
    assert follower.stdout.readline() == b"a line that comes\n"
    follower.kill()
    follower.communicate()
    crucible.ok("daemon", "stop")


@pytest.mark.parametrize("count", ["-1", "many", "1000000", ""])
def test_a_number_of_lines_that_is_none_is_refused(crucible: CommandLine, count: str) -> None:
    asked = crucible("daemon", "logs", f"--lines={count}")
    assert asked.returncode == 126
