"""A command joined to a real process: bytes, windows, pipes, signals, and an owner that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from tests.client.scripted_service import DEADLINE_S, EXITED, Peer, playing, start_client

from crucible.client import protocol
from crucible.client.command import Conduct, run_command
from crucible.client.exchange import Unseen
from crucible.client.protocol import ERRORS, INPUT, OUTPUT, WINDOW


def test_output_and_errors_arrive_untouched_on_their_own_descriptors(tmp_path: Path) -> None:
    every_byte = bytes(range(256)) * 300

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(every_byte)
        peer.output(every_byte[::-1], ERRORS)
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service:
        client = start_client(service)
        output, errors = client.communicate(timeout=DEADLINE_S)
    assert (output, errors, client.returncode) == (every_byte, every_byte[::-1], 0)


@pytest.mark.parametrize("status", [0, 1, 7, 124, 127, 137, 255])
def test_the_exit_status_is_the_commands_own(tmp_path: Path, status: int) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.say(ok={"exit": {"status": status}})

    with playing(tmp_path, script) as service:
        client = start_client(service)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == status


def test_bytes_are_acknowledged_only_when_they_were_written(tmp_path: Path) -> None:
    data = os.urandom(WINDOW)
    may_read = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(data)
        # The pipe of our standard output holds less than this, and nobody reads it yet.
        taken = [payload for kind, payload in peer.frames_until_quiet() if kind == protocol.TAKEN]
        assert sum(protocol.parse_taken(payload)[1] for payload in taken) < WINDOW
        may_read.set()

    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert may_read.wait(DEADLINE_S)
        output, _ = client.communicate(timeout=DEADLINE_S)
    assert data.startswith(output[: len(data)])


def test_output_without_end_needs_bounded_memory(tmp_path: Path) -> None:
    total = 128 << 20
    piece = bytes(65536)

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        sent = unacknowledged = 0
        while sent < total:
            while unacknowledged + len(piece) > WINDOW:
                kind, payload = peer.frame()
                if kind == protocol.TAKEN:
                    unacknowledged -= protocol.parse_taken(payload)[1]
            peer.output(piece)
            sent += len(piece)
            unacknowledged += len(piece)
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert client.stdout is not None
        count = peak_kib = 0
        while data := os.read(client.stdout.fileno(), 1 << 20):
            count += len(data)
            peak_kib = peak_memory_kib(client.pid) or peak_kib
        client.communicate(timeout=DEADLINE_S)
    assert count == total
    assert 0 < peak_kib < 100 << 10


def peak_memory_kib(pid: int) -> int:
    """Of the program itself: what `getrusage` tells includes the process that forked it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def test_input_stays_within_the_window(tmp_path: Path) -> None:
    data = os.urandom(3 * WINDOW + 17)

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        received = peer.input(WINDOW)
        assert received == data[:WINDOW]
        assert peer.frames_until_quiet() == []
        peer.send(protocol.taken_frame(INPUT, WINDOW))
        while True:
            kind, payload = peer.frame()
            if kind == protocol.END:
                break
            received += payload[1:]
            peer.send(protocol.taken_frame(INPUT, len(payload) - 1))
        assert received == data
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service:
        client = start_client(service, stdin=subprocess.PIPE)
        client.communicate(data, timeout=DEADLINE_S)
    assert client.returncode == 0


def test_no_input_is_sent_before_the_command_has_started(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        assert peer.frames_until_quiet() == []
        peer.start()
        assert peer.input() == b"hello"
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service:
        client = start_client(service, stdin=subprocess.PIPE)
        client.communicate(b"hello", timeout=DEADLINE_S)
    assert client.returncode == 0


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(1 << 17)])
def test_a_regular_file_is_read_to_its_end(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        assert peer.input() == content
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service, (tmp_path / "file").open("rb") as file:
        client = start_client(service, stdin=file)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 0


def test_a_command_that_ends_does_not_wait_for_its_input(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.say(ok=EXITED)

    reader, writer = os.pipe()
    with playing(tmp_path, script) as service:
        client = start_client(service, stdin=reader)
        client.communicate(timeout=DEADLINE_S)
    os.close(reader)
    os.close(writer)
    assert client.returncode == 0


def test_a_closed_pipe_ends_us_by_its_signal_and_the_sandbox_with_us(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"first\n")
        peer.taken(OUTPUT, 6)
        gone.wait(DEADLINE_S)
        peer.output(b"second\n")
        assert peer.is_closed()

    gone = threading.Event()
    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert client.stdout is not None
        assert client.stdout.readline() == b"first\n"
        client.stdout.close()
        gone.set()
        client.wait(DEADLINE_S)
        assert client.stderr is not None
        client.stderr.close()
    assert client.returncode == -signal.SIGPIPE


def test_a_closed_pipe_kills_a_command_whose_sandbox_stays(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(bytes(WINDOW))
        assert peer.message() == {"signal": signal.SIGKILL}
        assert peer.is_closed()

    with playing(tmp_path, script) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        assert client.stdout is not None
        assert client.stderr is not None
        client.stdout.close()
        client.wait(DEADLINE_S)
        client.stderr.close()
    assert client.returncode == -signal.SIGPIPE


def test_one_interrupt_is_the_commands(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b".")
        assert peer.message() == {"signal": signal.SIGINT}
        peer.say(ok={"exit": {"status": 42}})

    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert client.stdout is not None
        assert client.stdout.read(1) == b"."
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 42


def test_a_second_interrupt_ends_a_temporary_sandbox(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b".")
        assert peer.message() == {"signal": signal.SIGINT}
        peer.output(b"!")
        assert peer.is_closed()

    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert client.stdout is not None
        assert client.stdout.read(1) == b"."
        client.send_signal(signal.SIGINT)
        assert client.stdout.read(1) == b"!"
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 128 + signal.SIGINT


def test_a_second_interrupt_kills_only_the_command_of_a_named_sandbox(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b".")
        assert peer.message() == {"signal": signal.SIGINT}
        peer.output(b"!")
        assert peer.message() == {"signal": signal.SIGKILL}
        peer.say(ok={"exit": {"status": 137}})

    with playing(tmp_path, script) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        assert client.stdout is not None
        for expected in (b".", b"!"):
            assert client.stdout.read(1) == expected
            client.send_signal(signal.SIGINT)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 137


def test_an_interrupt_before_the_start_gives_up_at_once(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        client.send_signal(signal.SIGINT)
        assert peer.is_closed()

    with playing(tmp_path, script) as service:
        client = start_client(service)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_is_passed_on_to_the_command(tmp_path: Path, number: signal.Signals) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b".")
        assert peer.message() == {"signal": number}
        assert peer.is_closed()

    with playing(tmp_path, script) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        assert client.stdout is not None
        assert client.stdout.read(1) == b"."
        client.send_signal(number)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 128 + number


def test_an_interrupt_is_heard_while_nobody_reads_our_output(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(bytes(WINDOW))
        peer.output(b".", ERRORS)
        assert peer.message() == {"signal": signal.SIGINT}
        peer.say(ok={"exit": {"status": 130}})

    with playing(tmp_path, script) as service:
        client = start_client(service)
        assert client.stderr is not None
        assert client.stderr.read(1) == b"."
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 130


def test_a_command_goes_on_where_its_output_stopped_when_the_owner_dies(tmp_path: Path) -> None:
    def first(peer: Peer) -> None:
        assert peer.request() == {"verb": "exec"}
        peer.start()
        peer.output(b"one ")
        peer.output(b"uno ", ERRORS)
        peer.taken(OUTPUT, 4)

    def second(peer: Peer) -> None:
        assert peer.request() == {
            "verb": "attach",
            "name": "box",
            "stream": 3,
            "output": 4,
            "errors": 4,
            "waits": True,
        }
        peer.start(output=4, errors=4, input=0)
        peer.output(b"two")
        peer.output(b"due", ERRORS)
        peer.say(ok={"exit": {"status": 9}})

    with playing(tmp_path, first, second) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        output, errors = client.communicate(timeout=DEADLINE_S)
    assert (output, errors, client.returncode) == (b"one two", b"uno due", 9)


def test_a_command_is_not_given_up_while_one_owner_after_the_other_dies(tmp_path: Path) -> None:
    """Each dying one takes two links: ours to it, and the one that it can still be given and never takes."""

    def first(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"one ")
        peer.taken(OUTPUT, 4)

    def die(peer: Peer) -> None:
        assert peer.request()["verb"] == "attach"

    def last(peer: Peer) -> None:
        peer.request()
        peer.start(output=4, errors=0, input=0)
        peer.output(b"two")
        peer.say(ok=EXITED)

    with playing(tmp_path, first, *[die] * 5, last) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        output, _ = client.communicate(timeout=DEADLINE_S)
    assert (output, client.returncode) == (b"one two", 0)


def test_input_the_dead_owner_had_not_passed_on_is_sent_again(tmp_path: Path) -> None:
    def first(peer: Peer) -> None:
        peer.request()
        peer.start()
        assert peer.input() == b"0123456789"
        peer.send(protocol.taken_frame(INPUT, 4))
        peer.output(b".")
        peer.taken(OUTPUT, 1)

    def second(peer: Peer) -> None:
        assert peer.request()["output"] == 1
        peer.start(output=1, errors=0, input=6)
        assert peer.input() == b"6789"
        peer.say(ok=EXITED)

    with playing(tmp_path, first, second) as service:
        client = start_client(service, outlives_us=True, sandbox="box", stdin=subprocess.PIPE)
        output, _ = client.communicate(b"0123456789", timeout=DEADLINE_S)
    assert (output, client.returncode) == (b".", 0)


def test_a_request_nobody_took_is_made_again(tmp_path: Path) -> None:
    def refuse(peer: Peer) -> None:
        peer.request()

    def serve(peer: Peer) -> None:
        assert peer.request() == {"verb": "exec"}
        peer.start()
        peer.say(ok=EXITED)

    with playing(tmp_path, refuse, refuse, serve) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 0


@pytest.mark.parametrize("has_another_way", [True, False])
def test_a_run_nobody_took_goes_another_way_if_there_is_one(
    tmp_path: Path, has_another_way: bool
) -> None:
    """A daemon that is killed or leaves takes connections for a moment, and no requests."""

    def is_dying(peer: Peer) -> None:
        peer.close()

    def lives(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"done")
        peer.say(ok=EXITED)

    scripts = (is_dying, lives) if has_another_way else (is_dying,)
    with playing(tmp_path, *scripts) as service:
        client = start_client(service, verb="run", has_another_way=has_another_way)
        output, errors = client.communicate(timeout=DEADLINE_S)
    if has_another_way:
        assert (output, client.returncode) == (b"done", 0), errors
    else:
        assert (output, client.returncode) == (b"", 125), errors


def test_a_request_that_was_taken_is_not_made_twice(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.say(accepted={})

    with playing(tmp_path, script) as service:
        client = start_client(service, outlives_us=True, sandbox="box")
        _, errors = client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 125
    assert errors.startswith(b"error: The program that holds the sandbox")


def test_output_before_an_error_is_not_lost(tmp_path: Path) -> None:
    data = os.urandom(WINDOW)

    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(data)
        error = {
            "code": "guest-gone",
            "message": "It\x1b[2J died\n",
            "hint": "h",
            "exit_status": 125,
        }
        peer.say(error=error)

    with playing(tmp_path, script) as service:
        client = start_client(service)
        output, errors = client.communicate(timeout=DEADLINE_S)
    assert output == data
    assert errors == b"error: It\\x1b[2J died\\n (guest-gone)\nhint: h\n"
    assert client.returncode == 125


@pytest.mark.parametrize(
    "junk",
    [b"HTTP/1.0 400 Bad Request\r\n\r\n", b"D\xff\xff\xff\xff", protocol.data_frame(9, b"x")],
)
def test_a_service_that_speaks_otherwise_is_an_error(tmp_path: Path, junk: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(junk)
        assert peer.is_closed()

    with playing(tmp_path, script) as service:
        client = start_client(service)
        _, errors = client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 125
    assert errors.startswith(b"error: ")


def test_a_full_disk_under_our_output_is_an_error(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"x")
        assert peer.is_closed()

    with playing(tmp_path, script) as service, Path("/dev/full").open("wb") as full:
        client = start_client(service, stdout=full)
        _, errors = client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 125
    assert b"No space left on device" in errors


def test_being_out_of_time_or_memory_is_told(tmp_path: Path) -> None:
    def late(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.say(
            ok={
                "exit": {"status": 124},
                "limit": {"name": "time", "value": "2 s", "option": "--timeout"},
            }
        )

    def greedy(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.say(
            ok={
                "exit": {"status": 137},
                "limit": {"name": "memory", "value": "1 MiB", "option": "--memory"},
            }
        )

    with playing(tmp_path, late, greedy) as service:
        for status, words in ((124, b"time limit"), (137, b"out of memory")):
            client = start_client(service)
            _, errors = client.communicate(timeout=DEADLINE_S)
            assert client.returncode == status
            assert words in errors


def test_a_workspace_goes_before_the_input_which_counts_anew(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pieces = [os.urandom(WINDOW), os.urandom(WINDOW - 1)]

    def script(peer: Peer) -> None:
        assert peer.request() == {"verb": "run", "upload": True}
        received = b""
        while len(received) < sum(map(len, pieces)):
            kind, payload = peer.frame()
            assert kind == protocol.DATA
            received += payload[1:]
            # The last of it is never acknowledged: the start says that all was taken.
            if len(received) <= WINDOW:
                peer.send(protocol.taken_frame(INPUT, len(payload) - 1))
        assert peer.frame()[0] == protocol.END
        assert received == b"".join(pieces)
        peer.start()
        peer.output(b"done")
        peer.say(ok=EXITED)

    with playing(tmp_path, script) as service:
        ended = run_command(
            service.connect,
            {"verb": "run", "upload": True},
            conduct=Conduct(wants_input=False),
            progress=Unseen(),
            upload=lambda: pieces,
        )
    assert (ended.exit.status, capfdbinary.readouterr().out) == (0, b"done")
