"""Machines that wait warm, and `crucible run` by way of the daemon: the same as alone, used once, nothing left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SMALL, CommandLine, end_owner, owner_pid, unprivileged
from tests.e2e.leftovers import leftovers

from crucible.client import front
from crucible.sandbox.records import SandboxRecord, open_records

pytestmark = pytest.mark.vm

WHO = "cat /etc/hostname /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1"


@pytest.fixture(scope="module")
def daemon(small_home: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(small_home)
    command_line.environment["CRUCIBLE_POOL_MIN"] = "1"
    command_line.environment["CRUCIBLE_POOL_MAX"] = "2"
    command_line.ok("daemon", "start")
    yield command_line
    command_line.ok("daemon", "stop")
    assert leftovers(small_home) == []


@pytest.fixture(params=["alone", "daemon"])
def way(request: pytest.FixtureRequest, prepared_home: Path) -> CommandLine:
    """The same command line with a daemon and without one."""
    if request.param == "daemon":
        found: CommandLine = request.getfixturevalue("daemon")
        return found
    return CommandLine(request.getfixturevalue("home"))


def pool(crucible: CommandLine) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(crucible.ok("daemon", "status", "--json"))["pool"]
    return facts


def wait_warm(crucible: CommandLine, count: int = 1) -> None:
    while pool(crucible)["warm"] < count:
        time.sleep(0.05)


def records(home: Path) -> list[SandboxRecord]:
    opened = open_records(home)
    try:
        return opened.sandboxes()
    finally:
        opened.close()


def temporaries(home: Path) -> list[SandboxRecord]:
    return [record for record in records(home) if record.state != "warm" and record.is_temporary]


def test_a_command_takes_a_machine_that_waited_and_its_like_never_comes_back(
    daemon: CommandLine,
) -> None:
    seen: set[str] = set()
    for _ in range(3):
        wait_warm(daemon)
        before = pool(daemon)["hits"]
        waiting = {record.id for record in records(daemon.home) if record.state == "warm"}
        told = daemon.ok("run", "--", "sh", "-c", f"{WHO}; touch /workspace/mine; ls /workspace")
        assert pool(daemon)["hits"] == before + 1
        lines = told.split("\n")
        assert lines[4:] == ["mine", ""]
        # Nothing of who it is was so while it waited, and nothing is so twice.
        assert not seen & set(lines[:4])
        seen |= set(lines[:4])
        assert waiting - {record.id for record in records(daemon.home)}


def test_the_clock_of_a_machine_that_waited_is_right(daemon: CommandLine) -> None:
    wait_warm(daemon)
    time.sleep(2)
    before = time.time()
    told = float(daemon.ok("run", "--", "date", "+%s.%N"))
    assert before - 1 <= told <= time.time() + 1


def test_machines_that_wait_are_in_no_list_and_no_ones(daemon: CommandLine) -> None:
    wait_warm(daemon)
    assert json.loads(daemon.ok("list", "--json")) == []
    waiting = [record for record in records(daemon.home) if record.state == "warm"]
    for name in (waiting[0].name, waiting[0].id):
        assert daemon("exec", name, "true").returncode == 126
        assert daemon("rm", "--force", name).returncode == 126


def test_what_is_asked_for_beyond_the_shape_is_there_all_the_same(
    daemon: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("from the host")
    wait_warm(daemon)
    before = pool(daemon)["hits"]
    told = daemon.ok(
        "run", "--name", "mine", "--dir", str(tmp_path), "--env", "KEY=value", "--read-only", "--",
        "sh", "-c", "hostname; cat file; echo $KEY; touch file || echo refused",
    )  # fmt: skip
    assert told == "mine\nfrom the hostvalue\nrefused\n"
    assert pool(daemon)["hits"] == before + 1


def test_a_name_that_is_taken_is_refused_and_costs_no_machine(daemon: CommandLine) -> None:
    daemon.ok("create", "taken")
    wait_warm(daemon)
    refused = daemon("run", "--name", "taken", "--", "true")
    assert (refused.returncode, b"(name-taken)" in refused.stderr) == (126, True)
    assert pool(daemon)["warm"] >= 1
    daemon.ok("rm", "taken")


def test_another_size_is_no_hit_and_is_served(daemon: CommandLine) -> None:
    wait_warm(daemon)
    before = pool(daemon)["misses"]
    told = daemon.ok("run", "--memory", f"{SMALL.memory_mib}M", "--", "cat", "/proc/meminfo")
    assert int(told.split()[1]) < SMALL.memory_mib << 10
    assert pool(daemon)["misses"] == before + 1


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_the_exit_status_is_the_commands_own(way: CommandLine, status: int) -> None:
    done = way("run", "--", "sh", "-c", f"echo out; echo err >&2; exit {status}")
    assert (done.returncode, done.stdout) == (status, b"out\n")
    assert done.stderr.endswith(b"err\n")


def test_input_goes_in_and_comes_out_whole(way: CommandLine) -> None:
    data = os.urandom(2_000_000)
    assert way("run", "--", "cat", input=data).stdout == data


def test_words_that_are_no_text_arrive_as_they_are(way: CommandLine) -> None:
    argv = [
        *map(os.fsencode, way.argv),
        b"run",
        b"--",
        b"printf",
        b"%s|",
        b"",
        b"a b",
        b"\xff\xfe",
        b"$x",
    ]
    done = subprocess.run(argv, capture_output=True, env=way.environment, timeout=240)
    assert done.stdout == b"|a b|\xff\xfe|$x|"


@pytest.mark.parametrize(
    "words, status, code",
    [
        (["--timeout", "1s", "--", "sleep", "60"], 124, b"time limit"),
        (["--", "nosuchprogram"], 127, b""),
        (["--nosuchoption", "--", "true"], 126, b"hint:"),
        (["--image", "nosuch:1", "--", "true"], 126, b"(image-missing)"),
        (["--name", "-bad", "--", "true"], 126, b"(bad-name)"),
        (["-t", "--", "true"], 126, b"terminal"),
    ],
    ids=["time", "program", "option", "image", "name", "terminal"],
)
def test_what_goes_wrong_is_told_in_the_same_words(
    way: CommandLine, words: list[str], status: int, code: bytes
) -> None:
    done = way("run", *words)
    assert (done.returncode, code in done.stderr) == (status, True), done.stderr


def test_the_directory_the_variables_and_the_mask_are_the_callers(
    way: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text("")
    way.environment["PASSED_ON"] = "by name"
    done = way("run", "--dir", ".", "--", "sh", "-c", "ls", cwd=tmp_path)
    assert done.stdout == b"here\n"
    del way.environment["PASSED_ON"]


def test_closed_descriptors_do_not_matter(way: CommandLine) -> None:
    script = '"$@" <&- 2>&-'
    argv = ["sh", "-c", script, "sh", *way.argv, "run", "--", "echo", "hi"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, env=way.environment, timeout=240)
    assert (done.returncode, done.stdout) == (0, b"hi\n")


def test_nobody_reading_ends_it_like_any_program_of_a_pipeline(way: CommandLine) -> None:
    writer = way.start("run", "--", "yes", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert writer.stdout is not None
    assert writer.stdout.read(2) == b"y\n"
    writer.stdout.close()
    assert writer.wait(timeout=240) == -signal.SIGPIPE


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 42), (signal.SIGTERM, 143)])
def test_a_signal_reaches_the_command_or_ends_it(
    way: CommandLine, number: signal.Signals, status: int
) -> None:
    script = "trap 'exit 42' INT; echo ready; while :; do sleep 0.05; done"
    run = way.start(
        "run", "--", "bash", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(number)
    assert run.wait(timeout=240) == status
    run.stdout.close()
    while temporaries(way.home):
        time.sleep(0.05)


def test_a_killed_caller_takes_its_sandbox_with_it(daemon: CommandLine) -> None:
    run = daemon.start("run", "--", "sh", "-c", "echo ready; sleep 600", stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE)  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    assert len(temporaries(daemon.home)) == 1
    run.kill()
    run.communicate()
    while temporaries(daemon.home):
        time.sleep(0.05)


def test_another_user_is_not_let_in(daemon: CommandLine) -> None:
    """The socket lies in a private directory; whoever gets past that is told nothing and starts nothing."""
    path = daemon.home / front.SOCKET_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    at = os.open(daemon.home, os.O_PATH)
    try:
        path.chmod(0o666)
        with unprivileged(), socket.socket(socket.AF_UNIX) as stranger:
            if os.geteuid() == 0:
                pytest.fail("the test did not become another user")
            try:
                stranger.connect(f"/proc/self/fd/{at}/{front.SOCKET_NAME}")
            except PermissionError:
                return
            stranger.settimeout(240)
            assert stranger.recv(1) == b""
    finally:
        path.chmod(0o600)
        os.close(at)


@pytest.mark.parametrize(
    "said",
    [b"", b"x", front.MAGIC, front.MAGIC + b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n" * 100],
)
def test_what_is_no_request_is_answered_with_no_and_harms_nobody(
    daemon: CommandLine, said: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(240)
        caller.connect(str(daemon.home / front.SOCKET_NAME))
        if said:
            caller.sendall(said)
        caller.shutdown(socket.SHUT_WR)
        # What was not read when the other side left is told as a reset.
        with contextlib.suppress(ConnectionResetError):
            assert caller.recv(1) in (front.NOT, b"")
    assert daemon.ok("run", "--", "echo", "served") == "served\n"


def test_a_daemon_that_is_killed_leaves_no_machine_and_its_caller_is_told(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.ok("daemon", "start")
    wait_warm(crucible, 2)
    run = crucible.start("run", "--", "sh", "-c", "echo ready; sleep 600", stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    os.kill(json.loads(crucible.ok("daemon", "status", "--json"))["pid"], signal.SIGKILL)
    _, told = run.communicate(timeout=240)
    assert (run.returncode, b"(owner-unreachable)" in told) == (125, True)
    assert crucible.ok("run", "--", "echo", "alone") == "alone\n"
    crucible.ok("daemon", "start")
    wait_warm(crucible)
    assert len(temporaries(home)) == 0
    crucible.ok("daemon", "stop")
    assert leftovers(home) == []


def test_a_daemon_that_takes_connections_and_no_requests_is_done_without(home: Path) -> None:
    """As one that was killed does, for as long as its memory takes to go."""
    crucible = CommandLine(home)
    (home / front.SOCKET_NAME).touch()
    with socket.socket(socket.AF_UNIX) as dying:
        dying.settimeout(240)
        dying.bind(str(home / "owner.sock"))
        dying.listen()
        run = crucible.start("run", "--", "echo", "alone", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE)  # fmt: skip
        dying.accept()[0].close()
        assert run.communicate(timeout=240)[0] == b"alone\n"
    assert (run.returncode, leftovers(home)) == (0, [])


@pytest.mark.parametrize(
    "moment",
    [
        lambda record: record.state == "warm",
        lambda record: record.state == "warm" and record.pid is not None,
        lambda record: record.state in ("starting", "running"),
        lambda record: record.state == "running",
    ],
    ids=["recorded", "restored", "handed out", "used"],
)
def test_a_daemon_that_is_killed_at_a_step_of_its_pool_leaves_nothing(
    home: Path, moment: Callable[[SandboxRecord], bool]
) -> None:
    crucible = CommandLine(home)
    crucible.ok("daemon", "start")
    run = crucible.start("run", "--", "sleep", "600", stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while not any(moment(record) for record in records(home)):
        time.sleep(0.002)
    pid = owner_pid(home)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    # Handed over, it ends with the daemon; alone, since the daemon was gone first, it would go on.
    run.terminate()
    run.wait(timeout=240)
    crucible.ok("daemon", "start")
    wait_warm(crucible)
    crucible.ok("daemon", "stop")
    assert records(home) == []
    assert leftovers(home) == []


def test_more_than_may_wait_are_refused_and_told_when_to_come_again(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.environment.update(CRUCIBLE_RUNS_MAX="1", CRUCIBLE_QUEUE_MAX="1")
    crucible.ok("daemon", "start")
    holder = crucible.start("run", "--", "sh", "-c", "echo ready; read line", stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    waiter = crucible.start(
        "run", "--", "echo", "my turn", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    while json.loads(crucible.ok("daemon", "status", "--json"))["queue"]["waiting"] < 1:
        time.sleep(0.05)
    refused = crucible("run", "--", "true")
    assert (refused.returncode, b"(overloaded)" in refused.stderr) == (126, True)
    assert b"Try again in 30 s" in refused.stderr
    holder.communicate(b"go\n", timeout=240)
    assert waiter.communicate(timeout=240)[0] == b"my turn\n"
    crucible.ok("daemon", "stop")
    assert leftovers(home) == []


def test_stopping_lets_a_command_finish_and_takes_the_waiting_machines(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.environment["CRUCIBLE_DRAIN_S"] = "60"
    crucible.ok("daemon", "start")
    wait_warm(crucible)
    run = crucible.start("run", "--", "sh", "-c", "echo ready; sleep 2; echo done",
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    crucible.ok("daemon", "stop")
    output, _ = run.communicate(timeout=240)
    assert (output, run.returncode) == (b"done\n", 0)
    assert records(home) == []
    assert leftovers(home) == []
    end_owner(home)
