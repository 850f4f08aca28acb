"""The real command line in a pseudo-terminal: keys, sizes, signals, and what is left of the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine, owner_pid
from tests.e2e.leftovers import leftovers

pytestmark = pytest.mark.vm

DEADLINE_S = 240.0
CTRL_C, CTRL_D, DETACH = b"\x03", b"\x04", b"\x10\x11"


class Terminal:
    """A terminal with one program in it."""

    def __init__(self, crucible: CommandLine, *words: str) -> None:
        self._master, self._side = os.openpty()
        self.resize(24, 80)
        self.modes = termios.tcgetattr(self._side)
        self.seen = b""
        self.process = crucible.start(
            *words,
            stdin=self._side,
            stdout=self._side,
            stderr=self._side,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._side)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, pattern: bytes) -> re.Match[bytes]:
        """Waits until it is shown. What was shown before it is then forgotten."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, (pattern, self.seen)
            self.seen += os.read(self._master, 65536)
        self.seen = self.seen[found.end() :]
        return found

    def says(self, command: bytes, pattern: bytes) -> re.Match[bytes]:
        self.type(command + b"\r")
        return self.expect(pattern)

    def status(self) -> int:
        """How the program ended. What it still shows is taken meanwhile, or it could not end."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._master], [], [], 0.05)[0]:
                self.seen += os.read(self._master, 65536)
        while select.select([self._master], [], [], 0)[0]:
            self.seen += os.read(self._master, 65536)
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._side) == self.modes


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(module_home)
    command_line.environment["TERM"] = "dumb"
    command_line.ok("create", "box", "--start")
    yield command_line
    command_line.ok("rm", "--force", "box")


PROMPT = rb"[$#] "


def test_a_shell_shows_a_prompt_echoes_keys_and_ends_with_ctrl_d(crucible: CommandLine) -> None:
    with Terminal(crucible, "attach", "box") as terminal:
        terminal.expect(PROMPT)
        terminal.type(b"echo $((6 * 7))")
        terminal.expect(rb"echo \$\(\(6 \* 7\)\)")
        terminal.type(b"\r")
        terminal.expect(rb"\n42\r\n")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.status() == 0
        assert terminal.is_as_before


def test_the_guest_has_the_size_of_the_terminal_and_follows_it(crucible: CommandLine) -> None:
    with Terminal(crucible, "exec", "-it", "box", "bash") as terminal:
        terminal.expect(PROMPT)
        terminal.says(b"stty size", rb"24 80\r\n")
        terminal.resize(51, 133)
        while terminal.says(b"stty size", rb"(\d+ \d+)\r\n")[1] != b"51 133":
            time.sleep(0.05)
        terminal.says(b"exit 7", rb"exit")
        assert terminal.status() == 7


def test_ctrl_c_is_for_the_command_inside(crucible: CommandLine) -> None:
    with Terminal(crucible, "attach", "box") as terminal:
        terminal.expect(PROMPT)
        terminal.says(b"echo begin; sleep 1000", rb"\nbegin\r\n")
        begun = "until pgrep -x -f 'sleep 1000'; do sleep 0.05; done"
        crucible.ok("exec", "--timeout", "240", "box", "sh", "-c", begun)
        terminal.type(CTRL_C)
        terminal.expect(PROMPT)
        terminal.says(b"echo status $?", rb"\nstatus 130\r\n")
        terminal.type(b"exit\r")
        assert terminal.status() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_client_that_is_ended_gives_the_terminal_back(
    crucible: CommandLine, number: signal.Signals
) -> None:
    with Terminal(crucible, "attach", "box") as terminal:
        terminal.expect(PROMPT)
        assert not terminal.is_as_before
        terminal.process.send_signal(number)
        assert terminal.status() == 128 + number
        assert terminal.is_as_before


def test_a_shell_is_left_running_and_returned_to(crucible: CommandLine) -> None:
    with Terminal(crucible, "attach", "box") as terminal:
        terminal.expect(PROMPT)
        terminal.says(b"here=stayed; echo set", rb"\nset\r\n")
        terminal.expect(PROMPT)
        terminal.type(DETACH)
        number = terminal.expect(rb"attach --to (\d+) box")[1].decode()
        assert terminal.status() == 0
        assert terminal.is_as_before
    with Terminal(crucible, "attach", "--to", number, "box") as terminal:
        terminal.expect(rb"\nset\r\n")
        terminal.says(b"echo $here", rb"\nstayed\r\n")
        terminal.type(b"exit\r")
        assert terminal.status() == 0


def test_a_shell_survives_the_owner(crucible: CommandLine) -> None:
    with Terminal(crucible, "attach", "box") as terminal:
        terminal.expect(PROMPT)
        terminal.says(b"here=stayed; echo set", rb"\nset\r\n")
        pid = owner_pid(crucible.home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        terminal.says(b"echo $here", rb"\nstayed\r\n")
        terminal.type(b"exit\r")
        assert terminal.status() == 0
        assert terminal.is_as_before


def test_ctrl_c_once_is_for_the_command_of_a_run(crucible: CommandLine) -> None:
    script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.1; done"
    with Terminal(crucible, "run", "bash", "-c", script) as terminal:
        terminal.expect(rb"ready\r\n")
        terminal.type(CTRL_C)
        terminal.expect(rb"caught\r\n")
        assert terminal.status() == 3
    assert leftovers(crucible.home) == []


def test_ctrl_c_twice_ends_the_sandbox_of_a_run(crucible: CommandLine) -> None:
    script = "trap 'echo caught' INT; echo ready; while :; do sleep 0.1; done"
    with Terminal(crucible, "run", "bash", "-c", script) as terminal:
        terminal.expect(rb"ready\r\n")
        terminal.type(CTRL_C)
        terminal.expect(rb"caught\r\n")
        terminal.type(CTRL_C)
        assert terminal.status() == 130
    assert leftovers(crucible.home) == []


def test_ctrl_c_while_the_sandbox_starts_leaves_nothing(crucible: CommandLine) -> None:
    with Terminal(crucible, "run", "sleep", "1000") as terminal:
        while len(list((crucible.home / "sandboxes").glob("*/monitor.sock"))) < 2:
            assert terminal.process.poll() is None
            time.sleep(0.002)
        terminal.type(CTRL_C * 2)
        assert terminal.status() == 130
    found = [name for name in crucible.ok("list", "--quiet").split() if name != "box"]
    assert (found, leftovers(crucible.home)) == ([], [])


def test_a_terminal_in_a_sandbox_of_its_own(crucible: CommandLine) -> None:
    with Terminal(crucible, "run", "-it", "sh") as terminal:
        terminal.expect(PROMPT)
        terminal.says(b"tty", rb"/dev/pts/\d+\r\n")
        terminal.type(CTRL_D)
        assert terminal.status() == 0
        assert terminal.is_as_before


def test_a_pipe_that_wants_no_more_ends_the_run(crucible: CommandLine) -> None:
    line = f"{shlex.join([*crucible.argv, 'run', '--', 'yes'])} | head -1"
    done = subprocess.run(
        ["sh", "-c", line], env=crucible.environment, capture_output=True, timeout=DEADLINE_S
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"")
    assert leftovers(crucible.home) == []


@pytest.mark.parametrize("words", [("run", "--"), ("exec", "box")], ids=["run", "exec"])
def test_standard_input_goes_in_whole_and_ends(
    crucible: CommandLine, words: tuple[str, ...]
) -> None:
    data = os.urandom(2_500_000)
    done = crucible(*words, "sha256sum", input=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_binary_output_comes_out_untouched(crucible: CommandLine) -> None:
    data = bytes(range(256)) * 2000
    assert crucible("exec", "box", "cat", input=data).stdout == data


@pytest.mark.parametrize("words", [("run", "-it", "sh"), ("exec", "-t", "box", "sh")])
def test_a_terminal_that_is_none_is_refused(crucible: CommandLine, words: tuple[str, ...]) -> None:
    refused = crucible(*words)
    assert refused.returncode == 126
    assert b"standard input is none" in refused.stderr


def test_a_stopped_reader_does_not_lose_output(crucible: CommandLine) -> None:
    client = crucible.start("exec", "box", "seq", "100000", stdout=subprocess.PIPE)
    time.sleep(0.2)
    client.send_signal(signal.SIGSTOP)
    with contextlib.suppress(ProcessLookupError):
        time.sleep(0.2)
        client.send_signal(signal.SIGCONT)
    output, _ = client.communicate(timeout=DEADLINE_S)
    assert [int(word) for word in output.split()] == list(range(1, 100001))
