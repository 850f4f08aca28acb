"""The owner from outside: killed, started ten times at once, shouted at, left alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine, end_process, kill_owner, owner_pid
from tests.e2e.leftovers import leftovers

from crucible.client import protocol
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask

pytestmark = pytest.mark.vm

COUNT = """
import time
for number in range(%d):
    print(number, flush=True)
    time.sleep(0.01)
"""
# Counts until somebody who is done with it says so: however long that takes, it is still at it.
COUNT_ON = """
import os, time
number = 0
while not os.path.exists("/tmp/enough"):
    print(number, flush=True)
    number += 1
    time.sleep(0.01)
os.remove("/tmp/enough")
print("enough")
"""


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(module_home)
    command_line.ok("create", "box", "--start")
    yield command_line
    command_line.ok("rm", "--force", "box")


def facts(crucible: CommandLine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crucible.ok("inspect", "--json", name))
    return found


def numbers(text: str | bytes) -> list[int]:
    return [int(word) for word in text.split()]


def is_whole(text: bytes) -> bool:
    """Of what counts on: every number once, in order, and its last word."""
    *said, last = text.split()
    return last == b"enough" and [int(word) for word in said] == list(range(len(said)))


def execs(crucible: CommandLine, name: str) -> list[dict[str, Any]]:
    answer = ask(Owner(crucible.home).connect, {"verb": "execs", "name": name}, progress=Unseen())
    found: list[dict[str, Any]] = answer["execs"]
    return found


def wait_for_execs(crucible: CommandLine, name: str) -> None:
    while execs(crucible, name):
        time.sleep(0.05)


def fork(crucible: CommandLine) -> str:
    """A sandbox of the test's own, quickly."""
    name: str = json.loads(crucible.ok("fork", "box", "--json"))[0]["name"]
    return name


def test_a_command_nobody_watches_goes_on_and_its_log_has_everything_once(
    crucible: CommandLine,
) -> None:
    name = fork(crucible)
    crucible.ok("exec", "--detach", name, "python3", "-c", COUNT % 300)
    for _ in range(3):
        time.sleep(0.3)
        kill_owner(crucible.home)
        crucible.ok("exec", name, "true")
    wait_for_execs(crucible, name)
    assert numbers(crucible.ok("logs", name)) == list(range(300))
    crucible.ok("rm", "--force", name)


def test_a_watched_command_survives_and_its_output_is_whole(crucible: CommandLine) -> None:
    watcher = crucible.start("exec", "box", "python3", "-c", COUNT_ON, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    seen = b""
    for _ in range(2):
        seen += os.read(watcher.stdout.fileno(), 100)
        kill_owner(crucible.home)
    crucible.ok("exec", "box", "touch", "/tmp/enough")
    output, _ = watcher.communicate(timeout=240)
    assert is_whole(seen + output)
    assert watcher.returncode == 0


def test_input_survives_the_owner_too(crucible: CommandLine) -> None:
    data = os.urandom(3_000_000)
    watcher = crucible.start(
        "exec", "box", "sha256sum", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert watcher.stdin is not None
    for begin in range(0, len(data), 1_000_000):
        watcher.stdin.write(data[begin : begin + 1_000_000])
        watcher.stdin.flush()
        kill_owner(crucible.home)
        crucible.ok("exec", "box", "true")
    output, _ = watcher.communicate(timeout=240)
    assert output.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_what_a_killed_client_was_watching_gets_a_hangup(crucible: CommandLine) -> None:
    script = "trap 'echo hangup > /workspace/trapped; exit' HUP; echo ready; while :; do sleep 0.05; done"
    watcher = crucible.start("exec", "box", "bash", "-c", script, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == b"ready\n"
    watcher.kill()
    watcher.communicate()
    wait_for_execs(crucible, "box")
    assert crucible.ok("exec", "box", "cat", "/workspace/trapped") == "hangup\n"


def test_a_paused_sandbox_is_taken_over_as_paused(crucible: CommandLine) -> None:
    name = fork(crucible)
    crucible.ok("exec", "--detach", name, "python3", "-c", COUNT % 100)
    crucible.ok("pause", name)
    kill_owner(crucible.home)
    refused = crucible("exec", name, "true")
    assert (refused.returncode, b"paused" in refused.stderr) == (126, True)
    assert facts(crucible, name)["state"] == "paused"
    crucible.ok("resume", name)
    wait_for_execs(crucible, name)
    assert numbers(crucible.ok("logs", name)) == list(range(100))
    crucible.ok("rm", "--force", name)


def pause_and_bereave(crucible: CommandLine, name: str) -> subprocess.Popen[bytes]:
    """A client whose sandbox is paused and whose owner is killed, twice; nobody but the client starts another."""
    watcher = crucible.start("exec", name, "python3", "-c", COUNT_ON, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    assert os.read(watcher.stdout.fileno(), 2) == b"0\n"
    crucible.ok("pause", name)
    for _ in range(2):
        kill_owner(crucible.home)
        while (connection := Owner(crucible.home).connect_if_running()) is None:
            assert watcher.poll() is None
            time.sleep(0.02)
        connection.close()
    return watcher


def test_a_client_of_a_paused_sandbox_outlives_the_owner_and_goes_on_with_it(
    crucible: CommandLine,
) -> None:
    name = fork(crucible)
    watcher = pause_and_bereave(crucible, name)
    assert facts(crucible, name)["state"] == "paused"
    crucible.ok("resume", name)
    crucible.ok("exec", name, "touch", "/tmp/enough")
    output, _ = watcher.communicate(timeout=240)
    assert is_whole(b"0\n" + output)
    assert watcher.returncode == 0
    crucible.ok("rm", "--force", name)


def test_a_client_that_waits_for_a_paused_sandbox_is_told_when_that_goes(
    crucible: CommandLine,
) -> None:
    name = fork(crucible)
    watcher = pause_and_bereave(crucible, name)
    crucible.ok("rm", "--force", name)
    watcher.communicate(timeout=240)
    assert watcher.returncode == 126


def test_a_machine_that_died_meanwhile_is_stopped_with_a_note(crucible: CommandLine) -> None:
    name = fork(crucible)
    pid = facts(crucible, name)["pid"]
    kill_owner(crucible.home)
    end_process(pid)
    crucible.ok("exec", "box", "true")
    found = facts(crucible, name)
    assert found["state"] == "stopped"
    assert "ended while nobody held it" in found["note"]
    crucible.ok("rm", name)


def test_a_machine_that_dies_while_held_is_stopped_with_the_reason(crucible: CommandLine) -> None:
    name = fork(crucible)
    os.kill(facts(crucible, name)["pid"], signal.SIGKILL)
    while facts(crucible, name)["note"] == "":
        time.sleep(0.02)
    found = facts(crucible, name)
    assert (found["state"], found["note"][:15]) == ("stopped", "its VMM stopped")
    crucible.ok("rm", name)


def test_what_cannot_be_taken_over_is_broken_and_can_be_removed(crucible: CommandLine) -> None:
    name = fork(crucible)
    pointer = crucible.home / "images" / "base" / "current"
    kill_owner(crucible.home)
    aside = pointer.rename(pointer.with_name("aside"))
    try:
        assert crucible("exec", name, "true").returncode == 126
        found = facts(crucible, name)
        assert found["state"] == "broken"
        assert "Image 'base' was not found" in found["note"]
        assert "Traceback" in (crucible.home / "owner.log").read_text()
        crucible.ok("rm", "--force", name)
    finally:
        aside.rename(pointer)
    kill_owner(crucible.home)
    crucible.ok("exec", "box", "true")
    assert leftovers(crucible.home) == []


def test_a_start_without_its_image_changes_nothing(crucible: CommandLine) -> None:
    crucible.ok("create", "imageless")
    pointer = crucible.home / "images" / "base" / "current"
    aside = pointer.rename(pointer.with_name("aside"))
    try:
        refused = crucible("start", "imageless")
    finally:
        aside.rename(pointer)
    assert (refused.returncode, b"was not found" in refused.stderr) == (126, True)
    assert facts(crucible, "imageless")["state"] == "created"
    crucible.ok("rm", "imageless")


def test_ten_clients_at_once_start_one_owner(crucible: CommandLine) -> None:
    kill_owner(crucible.home)
    clients = [
        crucible.start("exec", "box", "echo", str(number), stdout=subprocess.PIPE)
        for number in range(10)
    ]
    said = [client.communicate(timeout=240)[0] for client in clients]
    assert said == [f"{number}\n".encode() for number in range(10)]
    # Those that were too late leave when they find that out.
    while len(found := owners(crucible.home)) > 1:
        time.sleep(0.05)
    assert found == [owner_pid(crucible.home)]


def owners(home: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"crucible.owner_main" in words and f"CRUCIBLE_HOME={home}".encode() in variables:
                found.append(int(entry.name))
    return found


def test_commands_from_many_terminals_never_corrupt_a_sandbox(crucible: CommandLine) -> None:
    words = [
        ("create", "raced"), ("start", "raced"), ("exec", "raced", "true"), ("pause", "raced"),
        ("start", "raced"), ("snapshot", "raced", "raced-tag"), ("rm", "--force", "raced"),
        ("create", "raced", "--start"), ("exec", "raced", "true"), ("resume", "raced"),
        ("fork", "raced", "--name", "raced-copy"), ("rm", "--force", "raced"),
        ("logs", "raced"), ("snapshot", "remove", "raced-tag"), ("create", "raced", "--start"),
        ("rm", "--force", "raced"),
    ]  # fmt: skip
    clients = [
        crucible.start(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for line in words
    ]
    ended = [(client.communicate(timeout=240), client.returncode) for client in clients]
    for line, ((_, errors), status) in zip(words, ended, strict=True):
        assert status in (0, 125, 126), (line, status, errors)
        assert b"Crucible failed" not in errors, (line, errors)
    for name in crucible.ok("list", "--quiet").split():
        if name.startswith("raced"):
            crucible.ok("rm", "--force", name)
    for tag in crucible.ok("snapshot", "list", "--quiet").split():
        crucible.ok("snapshot", "remove", tag)
    assert leftovers(crucible.home) == []


def hello(home: Path) -> socket.socket:
    connection = Owner(home).connect_if_running()
    assert connection is not None
    return connection


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(10_000),
        struct.pack(">BI", protocol.JSON, 0xFFFFFFFF) + b"x" * 100_000,
        struct.pack(">BI", protocol.JSON, 1 << 20) + b"[" * (1 << 20),
        protocol.json_frame({"verb": "nothing"}),
        protocol.json_frame({"verb": "exec", "name": "\ud800", "command": []}),
        protocol.json_frame({"verb": "exec", "name": "box", "command": {"argv": ["a\0b"]}}),
        protocol.json_frame({"verb": "attach", "name": "box", "stream": -1, "output": 0, "errors": 0}),
        protocol.data_frame(7, b"data first"),
        protocol.json_frame({"verb": "ping"}) + protocol.taken_frame(1, 1 << 31) * 10,
    ],
    ids=["http", "noise", "huge", "deep", "no verb", "surrogate", "nul", "stream", "data", "taken"],
)  # fmt: skip
def test_hostile_bytes_are_answered_or_hung_up_on(crucible: CommandLine, data: bytes) -> None:
    pid = owner_pid(crucible.home)
    with hello(crucible.home) as connection:
        connection.settimeout(240)
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert crucible.ok("exec", "box", "echo", "fine") == "fine\n"
    assert owner_pid(crucible.home) == pid


def test_clients_that_say_nothing_or_half_a_frame_disturb_nobody(crucible: CommandLine) -> None:
    quiet = [hello(crucible.home) for _ in range(20)]
    for connection in quiet[10:]:
        connection.sendall(protocol.json_frame({"verb": "ping"})[:7])
    assert crucible.ok("exec", "box", "echo", "fine") == "fine\n"
    for connection in quiet:
        connection.close()


def test_frames_without_end_are_hung_up_on(crucible: CommandLine) -> None:
    with hello(crucible.home) as connection:
        connection.settimeout(240)
        connection.sendall(start_frame("sleep", "60"))
        flood = protocol.data_frame(0, bytes(60_000)) * 1000
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(flood)
    wait_for_execs(crucible, "box")


def start_frame(*argv: str) -> bytes:
    command = {"argv": list(argv), "wants_input": True}
    return protocol.json_frame({"verb": "exec", "name": "box", "command": command})


def test_a_client_that_does_not_read_holds_up_itself_alone(crucible: CommandLine) -> None:
    with hello(crucible.home) as connection:
        connection.sendall(start_frame("yes"))
        while not execs(crucible, "box"):
            time.sleep(0.01)
        assert crucible.ok("exec", "box", "seq", "20000").count("\n") == 20000
        assert resident_kib(crucible.home) < 200_000
    wait_for_execs(crucible, "box")


def resident_kib(home: Path) -> int:
    text = Path(f"/proc/{owner_pid(home)}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


def test_many_commands_do_not_make_the_owner_grow(crucible: CommandLine) -> None:
    def many(count: int) -> int:
        for _ in range(count):
            request = {"verb": "exec", "name": "box", "command": {"argv": ["true"]}}
            ask(Owner(crucible.home).connect, request, progress=Unseen())
        return resident_kib(crucible.home)

    # What an owner has loaded and set aside by then, it has for good.
    before = many(120)
    assert many(120) - before < 1024


def test_the_owner_leaves_when_it_has_nothing_to_do(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.environment["CRUCIBLE_OWNER_IDLE_S"] = "1"
    crucible.ok("create", "idle")
    # It may have left by now, and then it is not among the processes any more.
    first = (home / "owner.lock").read_text()
    assert first.isdecimal()
    while owners(home):
        time.sleep(0.05)
    assert not (home / "owner.sock").exists()
    crucible.ok("rm", "idle")
    assert (home / "owner.lock").read_text() != first


def test_a_command_while_the_owner_leaves_gets_the_next_one(home: Path) -> None:
    crucible = CommandLine(home)
    crucible.ok("create", "one")
    for _ in range(3):
        request = {"verb": "shutdown"}
        leaving = threading.Thread(
            target=ask, args=(Owner(home).connect, request), kwargs={"progress": Unseen()}
        )
        leaving.start()
        created = crucible("create", "two")
        leaving.join()
        assert created.returncode == 0, created.stderr
        crucible.ok("rm", "two")
    crucible.ok("rm", "one")


def test_what_lies_in_the_place_of_the_socket_is_no_hindrance(home: Path) -> None:
    crucible = CommandLine(home)
    (home / "owner.sock").write_text("stale")
    (home / "owner.lock").write_text("99999999")
    crucible.ok("create", "box")
    crucible.ok("rm", "box")


def test_a_lock_that_cannot_be_used_is_told(home: Path) -> None:
    crucible = CommandLine(home)
    (home / "owner.lock").mkdir()
    refused = crucible("create", "box")
    assert refused.returncode == 125
    assert b"owner.lock cannot be used: Is a directory (state-damaged)" in refused.stderr
    assert b"hint: Move it away and try again" in refused.stderr
    assert "Traceback" in (home / "owner.log").read_text()
    shutil.rmtree(home / "owner.lock")
