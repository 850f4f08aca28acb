"""The client in a pseudo-terminal: keys, sizes, leaving, and a terminal that is given back as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import signal
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted_service import (
    DEADLINE_S,
    EXITED,
    Peer,
    ScriptedService,
    client_argv,
    client_environment,
    playing,
    start_client,
)

from crucible.client.terminal import DetachKeys


class Screen:
    """The terminal emulator's end, and the process behind the other."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, client_environment())

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.terminal)

    def type(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> bytes:
        """What is shown, up to and with the text."""
        shown = b""
        deadline = time.monotonic() + DEADLINE_S
        while text not in shown:
            assert select.select([self.terminal], [], [], deadline - time.monotonic())[0], shown
            shown += os.read(self.terminal, 4096)
        return shown

    def status(self) -> int:
        """Reads on until the process ends, and gives its exit status."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.02)[0]:
                try:
                    os.read(self.terminal, 4096)
                except OSError:
                    break
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def screen(service: ScriptedService, **conduct: Any) -> Iterator[Screen]:
    shown = Screen(client_argv(service, **conduct))
    try:
        yield shown
    finally:
        os.close(shown.terminal)


def test_control_c_is_a_key_for_a_guests_terminal(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.input(5) == b"a\x03\x1a\r\x04"
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service, screen(service, has_terminal=True) as shown:
        shown.until(b"ready")
        shown.type(b"a\x03\x1a\r\x04")
        assert shown.status() == 0


@pytest.mark.parametrize("ending", ["exit", "error", "lost", "killed"])
def test_the_terminal_is_given_back_as_it_was(tmp_path: Path, ending: str) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        if ending == "killed":
            assert peer.is_closed()
            return
        peer.input(1)
        if ending == "exit":
            peer.say(ok=EXITED)
        elif ending == "error":
            peer.say(
                error={"code": "guest-gone", "message": "gone", "hint": "", "exit_status": 125}
            )

    with playing(tmp_path, script) as service:
        # A terminal of our own that outlives the client, so that its modes can be read afterwards.
        emulator, terminal = pty.openpty()
        before = termios.tcgetattr(terminal)
        client = start_client(service, has_terminal=True, stdin=terminal, stdout=terminal)
        assert b"ready" in os.read(emulator, 100)
        assert termios.tcgetattr(terminal) != before
        os.write(emulator, b"x")
        if ending == "killed":
            client.terminate()
        client.wait(DEADLINE_S)
        assert termios.tcgetattr(terminal) == before
        os.close(emulator)
        os.close(terminal)


def test_a_new_size_is_told_to_the_guest(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.message() == {"resize": [43, 137]}
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service, screen(service, has_terminal=True) as shown:
        shown.until(b"ready")
        shown.resize(43, 137)
        assert shown.status() == 0


def test_a_command_that_is_returned_to_gets_our_size(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        assert peer.request() == {"verb": "attach"}
        may_start.wait(DEADLINE_S)
        peer.start()
        assert peer.message() == {"resize": [21, 79]}
        peer.say(ok=EXITED)

    may_start = threading.Event()
    with (
        playing(tmp_path, script) as service,
        screen(service, verb="attach", has_terminal=True) as shown,
    ):
        shown.resize(21, 79)
        may_start.set()
        assert shown.status() == 0


def test_the_detach_keys_leave_the_command_running(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.input(2) == b"ls"
        assert peer.message() == {"detach": True}
        peer.say(ok={})

    conduct = {"has_terminal": True, "can_detach": True, "outlives_us": True, "sandbox": "box"}
    with playing(tmp_path, script) as service, screen(service, **conduct) as shown:
        shown.until(b"ready")
        shown.type(b"ls\x10\x11")
        assert b"crucible attach --to 3 box" in shown.until(b"box")
        assert shown.status() == 0


def test_one_of_the_detach_keys_alone_reaches_the_guest(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.input(1) == b"\x10"
        peer.say(ok=EXITED)

    conduct = {"has_terminal": True, "can_detach": True, "outlives_us": True, "sandbox": "box"}
    with playing(tmp_path, script) as service, screen(service, **conduct) as shown:
        shown.until(b"ready")
        shown.type(b"\x10")
        assert shown.status() == 0


def test_without_a_guests_terminal_control_c_is_a_signal(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.message() == {"signal": signal.SIGINT}
        peer.say(ok={"exit": {"status": 130}})

    with playing(tmp_path, script) as service, screen(service) as shown:
        shown.until(b"ready")
        shown.type(b"\x03")
        assert shown.status() == 130


def test_a_line_typed_at_a_terminal_is_input(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.input() == b"hello\n"
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service, screen(service) as shown:
        shown.until(b"ready")
        shown.type(b"hello\n\x04")
        assert shown.status() == 0


def test_what_takes_long_is_shown_and_erased_again(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.say(progress=["image", "unpacking\x1b[2J"])
        # One at a time looks at the screen.
        noticed.append(shown.until(b" s)"))
        is_noticed.set()
        peer.start()
        peer.output(b"ready")
        peer.say(ok=EXITED)

    noticed: list[bytes] = []
    is_noticed = threading.Event()
    with playing(tmp_path, script) as service, screen(service) as shown:
        assert is_noticed.wait(DEADLINE_S)
        assert b"\r\x1b[K" in shown.until(b"ready") or b"\r\x1b[K" in noticed[0]
        assert shown.status() == 0
    assert b"image: unpacking\\x1b[2J" in noticed[0]


@pytest.mark.parametrize(
    "pieces, passed, is_complete",
    [
        ([b"abc"], b"abc", False),
        ([b"a\x10\x11b"], b"a", True),
        ([b"a\x10", b"\x11"], b"a", True),
        ([b"\x10", b"\x10", b"\x11"], b"\x10", True),
        ([b"\x10", b"x"], b"\x10x", False),
        ([b"\x11\x10x"], b"\x11\x10x", False),
    ],
)
def test_detach_keys_are_found_across_reads(
    pieces: list[bytes], passed: bytes, is_complete: bool
) -> None:
    keys = DetachKeys()
    assert b"".join(keys.feed(piece) for piece in pieces) == passed
    assert keys.is_complete is is_complete


def test_a_client_in_the_background_leaves_the_terminal_alone(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"ready")
        assert peer.frames_until_quiet(1.0)[1:] == []
        peer.say(ok={"exit": {"status": 5}})

    with playing(tmp_path, script) as service:
        client = " ".join(shlex.quote(word) for word in client_argv(service))
        shown = Screen(["/bin/sh", "-c", f"set -m; {client} & wait $!; echo status $?"])
        shown.until(b"ready")
        shown.type(b"not for you\n")
        assert b"status 5" in shown.until(b"status 5")
        os.close(shown.terminal)
        os.waitpid(shown.pid, 0)
