"""Commands, connections and the verbs of a machine, against a guest that plays its part or not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.sandbox.scripted_guest import (
    ERRORS,
    OUTPUT,
    ScriptedGuest,
    answered,
    failed,
    meeting,
    played,
    skipping,
)

from crucible.errors import (
    CommandNotExecutable,
    CommandNotFound,
    GuestRefused,
    GuestSilent,
    ProtocolBroken,
    Refused,
)
from crucible.sandbox import execution
from crucible.sandbox.guest import process as process_module
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.session import Channel, Command, ExecInfo, Identity, Session
from crucible.wire import requests
from crucible.wire.answers import (
    Done,
    Ended,
    ExecRecord,
    Execs,
    Grown,
    Measured,
)
from crucible.wire.frames import WINDOW_BYTES, Kind
from crucible.wire.notes import (
    Attach,
    Attached,
    Connected,
    Resize,
    Signal,
    Started,
    decode_attach,
    decode_note,
    decode_window,
    encode_window,
)
from crucible.wire.requests import Plain, Verb

TRUE = Command(argv=[b"true"])


def test_a_guest_session_is_a_session() -> None:
    async def scene() -> None:
        async with meeting() as (_, session):
            plain: Session = session
            assert plain.files is session.files

    asyncio.run(scene())


def test_run_returns_what_the_command_wrote_and_how_it_ended() -> None:
    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.Exec(
            (b"sh", b"\xff", b""),
            ((b"K", b"\x80"),),
            b"/w",
            "me",
            requests.EXEC_PTY,
            24,
            80,
            1500,
            ((5, 1 << 30),),
        )
        guest.note(stream, Started(3))
        guest.send(Kind.DATA, stream, b"out", OUTPUT)
        guest.send(Kind.DATA, stream, b"err", ERRORS)
        guest.send(Kind.DATA, stream, b"put", OUTPUT)
        guest.ended(stream, Ended(0, 7, 0, 2_000_000_000, 500_000_000, 4096))
        assert (await guest.expect(Kind.FORGET)).stream == stream

    command = Command(
        argv=[b"sh", b"\xff", b""],
        environment={b"K": b"\x80"},
        workdir=b"/w",
        user="me",
        has_terminal=True,
        timeout_s=1.5,
        limits={5: 1 << 30},
    )
    done = played(lambda session: session.run(command), part)
    assert (done.output, done.errors) == (b"output", b"err")
    assert (done.exit.status, done.exit.wall_s, done.exit.cpu_s) == (7, 2.0, 0.5)
    assert (done.exit.signal, done.exit.timed_out, done.exit.peak_bytes) == (None, False, 4096)


@pytest.mark.parametrize(
    "ended, status, signal, timed_out, out_of_memory",
    [
        (Ended(0, 0, 0, 0, 0, 0), 0, None, False, False),
        (Ended(0, 124, 0, 0, 0, 0), 124, None, False, False),
        (Ended(0, 255, 0, 0, 0, 0), 255, None, False, False),
        (Ended(1, 9, 1, 0, 0, 0), 137, 9, False, True),
        (Ended(2, 15, 0, 0, 0, 0), 124, None, True, False),
    ],
)
def test_an_exit_follows_the_shell(
    ended: Ended, status: int, signal: int | None, timed_out: bool, out_of_memory: bool
) -> None:
    async def part(guest: ScriptedGuest) -> None:
        guest.ended(await guest.started(), ended)

    exit = played(lambda session: session.run(TRUE), part).exit
    assert (exit.status, exit.signal) == (status, signal)
    assert (exit.timed_out, exit.out_of_memory) == (timed_out, out_of_memory)


@pytest.mark.parametrize("ended", [Ended(0, 256, 0, 0, 0, 0), Ended(1, 0, 0, 0, 0, 0)])
def test_an_exit_that_cannot_be_is_refused(ended: Ended) -> None:
    async def part(guest: ScriptedGuest) -> None:
        guest.ended(await guest.started(), ended)

    with pytest.raises(ProtocolBroken):
        played(lambda session: session.run(TRUE), part)


def test_input_is_fed_within_the_window_while_output_is_read() -> None:
    data = bytes(range(256)) * 8192

    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert isinstance(request, requests.Exec)
        assert request.flags == requests.EXEC_INPUT
        guest.note(stream, Started(3))
        guest.send(Kind.DATA, stream, b"ready", OUTPUT)
        assert await guest.input(stream) == data
        guest.ended(stream)

    assert played(lambda session: session.run(TRUE, input=data), part).output == b"ready"


def test_input_nobody_takes_does_not_outlive_the_command() -> None:
    async def part(guest: ScriptedGuest) -> None:
        guest.ended(await guest.started())

    done = played(lambda session: session.run(TRUE, input=bytes(4 * WINDOW_BYTES)), part)
    assert done.exit.status == 0


def test_output_beyond_the_cap_is_dropped_and_the_command_goes_on() -> None:
    async def part(guest: ScriptedGuest) -> None:
        stream = await guest.started()
        await guest.output(stream, 3 * WINDOW_BYTES)
        guest.send(Kind.DATA, stream, b"e", ERRORS)
        guest.ended(stream, Ended(0, 5, 0, 0, 0, 0))

    done = played(lambda session: session.run(TRUE, max_output=1000), part)
    assert (len(done.output), done.errors, done.exit.status) == (1000, b"e", 5)


def test_a_cancelled_run_is_forgotten_by_the_guest() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            for is_started in (False, True):
                running = asyncio.create_task(session.run(TRUE, input=bytes(WINDOW_BYTES * 2)))
                if is_started:
                    stream = await guest.started()
                    await guest.expect(Kind.DATA)
                else:
                    stream, _ = await guest.request()
                running.cancel()
                await asyncio.wait([running])
                assert running.cancelled()
                while (frame := await guest.receive()).kind is Kind.DATA:
                    pass
                assert (frame.kind, frame.stream) == (Kind.FORGET, stream)
            await _is_usable(guest, session)

    asyncio.run(scene())


async def _is_usable(guest: ScriptedGuest, session: GuestSession) -> None:
    asking = asyncio.create_task(session.thaw())
    stream, _ = await guest.request()
    guest.answer(stream, Done())
    await asking


def test_signals_and_sizes_reach_the_command() -> None:
    async def call(session: GuestSession) -> None:
        process = await session.start(TRUE)
        assert process.pid == 42
        await process.signal(15)
        await process.resize(50, 132)
        assert await process.read() is None
        assert (await process.wait()).status == 0
        assert (await process.wait()).status == 0
        await process.write(b"dropped")
        await process.close_input()
        await process.signal(9)
        await process.forget()
        await process.forget()

    async def part(guest: ScriptedGuest) -> None:
        stream = await guest.started(pid=42)
        assert decode_note((await guest.expect(Kind.NOTE)).payload) == Signal(15)
        assert decode_note((await guest.expect(Kind.NOTE)).payload) == Resize(50, 132)
        guest.ended(stream)
        await guest.expect(Kind.FORGET)

    played(call, part)


def test_waiting_for_a_command_that_was_forgotten_ends() -> None:
    async def call(session: GuestSession) -> None:
        process = await session.start(TRUE)
        waiting = asyncio.create_task(process.wait())
        await asyncio.sleep(0)
        await process.forget()
        with pytest.raises(Refused):
            await waiting
        assert await process.read() is None

    async def part(guest: ScriptedGuest) -> None:
        await guest.started()

    played(call, part)


def test_a_guest_that_misses_its_own_timeout_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "BACKSTOP_S", 0.02)

    async def part(guest: ScriptedGuest) -> None:
        await guest.started()

    with pytest.raises(GuestSilent):
        played(lambda session: session.run(Command(argv=[b"x"], timeout_s=0.01)), part)


def test_an_answer_that_came_while_we_did_not_run_counts_however_late_we_hear_it() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            asking = asyncio.create_task(session.thaw())
            stream, _ = await guest.request()
            guest.answer(stream, Done())
            # Nothing has run since: the answer is in the socket, and the alarm is due.
            with skipping() as skip:
                await skip(3600)
                await asking

    asyncio.run(scene())


def test_a_paused_guest_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "BACKSTOP_S", 60.0)

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(Command(argv=[b"x"], timeout_s=60)))
            stream = await guest.started()
            process = await starting
            session.stand_still()
            reading = asyncio.create_task(process.read())
            asking = asyncio.create_task(process.wait())
            with skipping() as skip:
                await skip(3600)
            assert not reading.done()
            assert not asking.done()
            guest.ended(stream, Ended(0, 7, False, 0, 0, 0))
            session.go_on()
            assert await reading is None
            assert (await asking).status == 7

    asyncio.run(scene())


def test_a_guest_that_was_paused_has_the_rest_of_its_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "BACKSTOP_S", 60.0)

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(Command(argv=[b"x"], timeout_s=60)))
            await guest.started()
            process = await starting
            waiting = asyncio.create_task(process.wait())
            with skipping() as skip:
                for _ in range(3):
                    session.stand_still()
                    session.stand_still()
                    await skip(3600)
                    assert not waiting.done()
                    session.go_on()
                    session.go_on()
                await skip(121)
                with pytest.raises(GuestSilent):
                    await waiting

    asyncio.run(scene())


def test_a_command_that_is_hung_up_on_while_paused_keeps_its_time_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "HANGUP_GRACE_S", 60.0)

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(Command(argv=[b"x"])))
            await guest.started()
            process = await starting
            session.stand_still()
            leaving = asyncio.create_task(execution.hang_up(process, process.wait))
            assert decode_note((await guest.expect(Kind.NOTE)).payload) == Signal(1)
            with skipping() as skip:
                await skip(3600)
                assert not leaving.done()
                session.go_on()
                await skip(61)
                await leaving
            await guest.expect(Kind.FORGET)

    asyncio.run(scene())


def test_a_result_held_up_by_our_own_reader_is_not_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "BACKSTOP_S", 60.0)

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(
                session.start(Command(argv=[b"x"], timeout_s=60)),
            )
            stream = await guest.started()
            process = await starting
            guest.send(Kind.DATA, stream, b"unread", OUTPUT)
            waiting = asyncio.create_task(process.wait())
            while not process._stream.has_unread:  # noqa: ASYNC110
                await asyncio.sleep(0)
            with skipping() as skip:
                await skip(3600)
                assert not waiting.done()
            guest.ended(stream)
            await process.discard()
            assert (await waiting).status == 0

    asyncio.run(scene())


@pytest.mark.parametrize(
    "code, kind, words",
    [
        ("not-found", CommandNotFound, "The sandbox has no command 'gcc\\x1b[2J'"),
        ("not-executable", CommandNotExecutable, "cannot be executed"),
        ("no-such-user", GuestRefused, "no user 'nobody'"),
        ("no-such-workdir", GuestRefused, "/srv/\\xff is not a directory"),
        ("not-prepared", GuestRefused, "not prepared"),
        ("frozen", GuestRefused, "frozen"),
        ("io", GuestRefused, "(io): disk \\x07 on fire"),
    ],
)
def test_why_a_command_was_not_started_is_said_plainly(
    code: str, kind: type[GuestRefused], words: str
) -> None:
    command = Command(argv=[b"gcc\x1b[2J"], user="nobody", workdir=b"/srv/\xff")
    error = failed(lambda session: session.run(command), code, "disk \x07 on fire")
    assert type(error) is kind
    assert words in error.message


def test_long_words_of_the_guest_are_cut() -> None:
    error = failed(lambda session: session.thaw(), "io", "x" * 60_000)
    assert len(error.message) < 400


def test_a_connection_carries_bytes_both_ways() -> None:
    async def call(session: GuestSession) -> bytes:
        connection = await session.dial(8080)
        await connection.write(b"GET /")
        await connection.close_write()
        taken = b""
        while data := await connection.read():
            taken += data
        await connection.close()
        return taken

    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.Dial(8080)
        guest.note(stream, Connected())
        assert await guest.input(stream) == b"GET /"
        guest.send(Kind.DATA, stream, b"200 OK", OUTPUT)
        guest.send(Kind.END, stream, channel=OUTPUT)
        guest.answer(stream, Done())

    assert played(call, part) == b"200 OK"


def test_a_port_nobody_listens_on_is_named() -> None:
    assert "port 81" in failed(lambda session: session.dial(81), "refused").message


def test_a_connection_that_breaks_is_reset() -> None:
    async def call(session: GuestSession) -> None:
        connection = await session.dial(8080)
        with pytest.raises(ConnectionResetError):
            await connection.read()

    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        guest.note(stream, Connected())
        guest.fail(stream, "io", "reset by peer")

    played(call, part)


def test_prepare_brings_the_time_of_sending() -> None:
    identity = Identity(entropy=bytes(32), hostname="box", machine_id="0" * 32, boot_id="b")
    before = time.time_ns()

    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert isinstance(request, requests.Prepare)
        assert before <= request.realtime_ns <= time.time_ns()
        assert (request.entropy, request.hostname) == (bytes(32), "box")
        guest.answer(stream, Done())

    played(lambda session: session.prepare(identity), part)


def test_the_verbs_of_a_machine_of_our_own() -> None:
    for call, verb in (
        (GuestSession.freeze, Verb.FREEZE),
        (GuestSession.thaw, Verb.THAW),
        (GuestSession.sync_disk, Verb.SYNC_DISK),
    ):
        answered(call, Plain(verb), Done())
    assert answered(GuestSession.grow, Plain(Verb.GROW), Grown(9)) == 9
    answered(lambda session: session.shutdown(1.5), requests.Shutdown(1500), Done())
    stats = answered(
        GuestSession.stats, Plain(Verb.STATS), Measured(10**9, 5 * 10**8, *range(3, 12))
    )
    assert (stats.uptime_s, stats.cpu_s, stats.memory_total, stats.oom_kills) == (1.0, 0.5, 3, 11)
    execs = answered(
        GuestSession.list_execs,
        Plain(Verb.LIST),
        Execs([ExecRecord(3, 8, True, 17, b"sh\xff")]),
    )
    assert execs == [ExecInfo(stream=3, pid=8, is_done=True, started_ns=17, argv0=b"sh\xff")]


def test_a_command_of_a_host_that_died_is_taken_up_where_it_was() -> None:
    info = ExecInfo(stream=3, pid=8, is_done=False, started_ns=17, argv0=b"sh")
    received = 5 * WINDOW_BYTES

    async def scene() -> None:
        async with meeting(next_stream=9) as (guest, session):
            attaching = asyncio.create_task(
                session.attach(info, output_offset=100, errors_offset=7)
            )
            frame = await guest.expect(Kind.ATTACH)
            assert frame.stream == 3
            assert decode_attach(frame.payload) == Attach(100, 7)
            guest.note(3, Attached(120, 7, received))
            process = await attaching
            assert (process.pid, process.input_offset) == (8, received)
            for channel, limit in ((OUTPUT, 120 + WINDOW_BYTES), (ERRORS, 7 + WINDOW_BYTES)):
                frame = await guest.expect(Kind.WINDOW)
                assert (frame.channel, decode_window(frame.payload).limit) == (channel, limit)
            writing = asyncio.create_task(process.write(b"more"))
            guest.send(Kind.WINDOW, 3, encode_window(received + 4))
            assert (await guest.expect(Kind.DATA)).payload == b"more"
            await writing
            guest.send(Kind.DATA, 3, b"later", OUTPUT)
            chunk = await process.read()
            assert chunk is not None
            assert (chunk.channel, chunk.offset, chunk.data) == (Channel.OUTPUT, 120, b"later")
            guest.ended(3)
            assert await process.read() is None
            assert (await process.wait()).status == 0
            with pytest.raises(Refused):
                await session.attach(info)

    asyncio.run(scene())


def test_output_can_be_granted_apart_from_reading_it() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            for _ in range(3):
                guest.send(Kind.DATA, stream, bytes(65536), OUTPUT)
            for _ in range(3):
                chunk = await process.read(grants=False)
                assert chunk is not None
            await process.signal(1)
            await guest.expect(Kind.NOTE)
            process.grant(Channel.OUTPUT, 100_000)
            frame = await guest.expect(Kind.WINDOW)
            assert decode_window(frame.payload).limit == 100_000 + WINDOW_BYTES
            process.grant(Channel.OUTPUT, 1 << 40)
            frame = await guest.expect(Kind.WINDOW)
            assert decode_window(frame.payload).limit == 3 * 65536 + WINDOW_BYTES

    asyncio.run(scene())


def test_taking_up_what_the_guest_does_not_know_is_refused() -> None:
    info = ExecInfo(stream=3, pid=8, is_done=False, started_ns=17, argv0=b"sh")

    async def scene() -> None:
        async with meeting(next_stream=9) as (guest, session):
            attaching = asyncio.create_task(session.attach(info))
            await guest.expect(Kind.ATTACH)
            guest.fail(3, "not-found", "no command has this stream")
            with pytest.raises(GuestRefused, match="no command has this stream") as caught:
                await attaching
            assert type(caught.value) is GuestRefused
            with pytest.raises(Refused):
                await session.attach(ExecInfo(**{**_fields(info), "stream": 9}))

    def _fields(info: ExecInfo) -> dict[str, Any]:
        return {name: getattr(info, name) for name in info.__slots__}

    asyncio.run(scene())


def test_a_cancelled_takeover_leaves_the_command_alone() -> None:
    info = ExecInfo(stream=3, pid=8, is_done=False, started_ns=17, argv0=b"sh")

    async def scene() -> None:
        async with meeting(next_stream=9) as (guest, session):
            attaching = asyncio.create_task(session.attach(info))
            await guest.expect(Kind.ATTACH)
            attaching.cancel()
            await asyncio.wait([attaching])
            guest.note(3, Attached(0, 0, 0))
            guest.send(Kind.DATA, 3, b"x", OUTPUT)
            await _is_usable(guest, session)

    asyncio.run(scene())


def test_data_before_the_note_of_a_takeover_ends_the_channel() -> None:
    info = ExecInfo(stream=3, pid=8, is_done=False, started_ns=17, argv0=b"sh")

    async def scene() -> None:
        async with meeting(next_stream=9) as (guest, session):
            attaching = asyncio.create_task(session.attach(info))
            await guest.expect(Kind.ATTACH)
            guest.send(Kind.DATA, 3, b"x", OUTPUT)
            with pytest.raises(ProtocolBroken):
                await attaching

    asyncio.run(scene())


def test_closing_a_session_ends_its_machine_once_the_channel_is_closed() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            order: list[str] = []

            async def end_machine() -> None:
                await guest.gone()
                order.append("machine")

            await GuestSession(session.channel, on_close=end_machine).close()
            assert order == ["machine"]

    asyncio.run(scene())
