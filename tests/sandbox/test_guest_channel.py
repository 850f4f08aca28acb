"""The channel against a guest that is silent, dying, confused or hostile."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from tests.sandbox.scripted_guest import ERRORS, OUTPUT, ScriptedGuest, ends, meeting
from tests.wire.vectors import load, named

from crucible.errors import (
    GuestGone,
    GuestPanicked,
    GuestSilent,
    ProtocolBroken,
    Refused,
    SandboxError,
)
from crucible.sandbox.guest import channel as channel_module
from crucible.sandbox.guest.channel import FLUSH_FRAMES, GuestChannel
from crucible.sandbox.guest.inbound import MANY_PIECES, Inbound
from crucible.sandbox.guest.link import UNSENT_BYTES
from crucible.sandbox.session import Command
from crucible.wire.answers import Done, Execs, Size
from crucible.wire.frames import MAX_PAYLOAD, WINDOW_BYTES, Kind, encode
from crucible.wire.generation import Hello, Sync
from crucible.wire.notes import Connected, Started, decode_window, encode_note, encode_window
from crucible.wire.requests import Plain, Verb

TRUE = Command(argv=[b"true"])


def test_meeting_tells_what_the_agent_is() -> None:
    async def scene() -> None:
        async with meeting(next_stream=41, state=2) as (guest, session):
            assert (session.hello.agent, session.hello.state) == ("scripted", 2)
            asking = asyncio.create_task(session.sync_disk())
            stream, request = await guest.request()
            assert (stream, request) == (41, Plain(Verb.SYNC_DISK))
            guest.answer(stream, Done())
            await asking

    asyncio.run(scene())


def test_what_was_under_way_before_the_meeting_is_passed_over() -> None:
    async def scene() -> None:
        async with ends() as (guest, sock):
            guest.writer.write(b"left of a frame" + encode(Kind.DATA, 3, bytes(70), OUTPUT))
            guest.writer.write(encode(Kind.DATA, 3, bytes(MAX_PAYLOAD), OUTPUT)[:9000])
            guest.hello(bytes(16))
            meet = asyncio.create_task(GuestChannel.connect(sock, deadline_s=120, name="box"))
            await guest.greet(next_stream=5)
            channel = await meet
            assert channel.hello.next_stream == 5
            await channel.close()

    asyncio.run(scene())


def test_an_unanswered_sync_is_followed_by_enough_to_flush_any_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "FLUSH_AGAIN_S", 3600.0)

    async def scene() -> None:
        async with ends() as (guest, sock):
            meet = asyncio.create_task(
                GuestChannel.connect(sock, deadline_s=120, name="box", flush_after_s=0.01)
            )
            nonces = [
                Sync.decode((await guest.expect(Kind.SYNC)).payload).nonce
                for _ in range(1 + FLUSH_FRAMES)
            ]
            assert len(set(nonces)) == 1
            assert FLUSH_FRAMES * len(Sync(nonces[0]).frame()) > MAX_PAYLOAD
            for nonce in nonces:
                guest.hello(nonce, next_stream=3)
            channel = await meet
            asking = asyncio.create_task(channel.ask(Plain(Verb.THAW), Done))
            stream, _ = await guest.request()
            guest.answer(stream, Done())
            await asking
            await channel.close()

    asyncio.run(scene())


def test_a_guest_that_never_answers_is_silent() -> None:
    async def why() -> GuestGone:
        raise AssertionError("a machine that is only silent was asked why it died")

    async def scene() -> None:
        async with ends() as (guest, sock):
            with pytest.raises(GuestSilent, match=r"0\.05 s"):
                await GuestChannel.connect(
                    sock, deadline_s=0.05, name="box", why_gone=why, flush_after_s=0.01
                )
            await guest.gone()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scene())


def test_another_generation_is_not_spoken_to() -> None:
    async def scene() -> None:
        async with ends() as (guest, sock):
            meet = asyncio.create_task(GuestChannel.connect(sock, deadline_s=120, name="box"))
            sync = Sync.decode((await guest.expect(Kind.SYNC)).payload)
            guest.send(Kind.HELLO, 0, Hello(sync.nonce, 2, 1, 0, "newer").encode())
            with pytest.raises(ProtocolBroken, match="generation 2"):
                await meet
            await guest.gone()

    asyncio.run(scene())


def test_a_machine_that_dies_in_the_meeting_is_gone() -> None:
    async def scene() -> None:
        async def why() -> GuestGone:
            return GuestPanicked("box", "the kernel panicked")

        async with ends() as (guest, sock):
            meet = asyncio.create_task(
                GuestChannel.connect(sock, deadline_s=120, name="box", why_gone=why)
            )
            await guest.expect(Kind.SYNC)
            guest.writer.close()
            with pytest.raises(GuestPanicked, match="the kernel panicked"):
                await meet

    asyncio.run(scene())


def breaks(attack: Callable[[ScriptedGuest, int], object]) -> None:
    """The attack, on a running exec, is seen by who waits and by who comes later; the socket closes."""

    async def scene() -> None:
        async with meeting(next_stream=9) as (guest, session):
            running = asyncio.create_task(session.run(TRUE))
            stream = await guest.started()
            attack(guest, stream)
            with pytest.raises(ProtocolBroken):
                await running
            with pytest.raises(ProtocolBroken):
                await session.stats()
            await guest.gone()
            assert isinstance(await session.channel.watch(), ProtocolBroken)

    asyncio.run(scene())


@pytest.mark.parametrize("vector", load("rejected"), ids=named)
def test_a_malformed_frame_ends_the_channel(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["hex"])
    breaks(lambda guest, stream: guest.writer.write(frame))


ATTACKS: dict[str, Callable[[ScriptedGuest, int], object]] = {
    "a frame only hosts send: OPEN": lambda guest, stream: guest.send(Kind.OPEN, stream, b"\x03"),
    "a frame only hosts send: FORGET": lambda guest, stream: guest.send(Kind.FORGET, stream),
    "a frame only hosts send: ATTACH": lambda guest, stream: guest.send(
        Kind.ATTACH, stream, bytes(16)
    ),
    "a frame only hosts send: SYNC": lambda guest, stream: guest.writer.write(
        Sync(bytes(16)).frame()
    ),
    "HELLO for another SYNC": lambda guest, stream: guest.hello(bytes(16)),
    "a stream never opened": lambda guest, stream: guest.send(Kind.DATA, stream + 1, b"x", OUTPUT),
    "a stream of another host": lambda guest, stream: guest.send(Kind.DATA, 3, b"x", OUTPUT),
    "data on the input channel": lambda guest, stream: guest.send(Kind.DATA, stream, b"x", 0),
    "end of the input channel": lambda guest, stream: guest.send(Kind.END, stream),
    "a window for output": lambda guest, stream: guest.send(
        Kind.WINDOW, stream, encode_window(1), OUTPUT
    ),
    "end twice": lambda guest, stream: guest.writer.write(
        encode(Kind.END, stream, b"", OUTPUT) * 2
    ),
    "data after the end": lambda guest, stream: guest.writer.write(
        encode(Kind.END, stream, b"", OUTPUT) + encode(Kind.DATA, stream, b"x", OUTPUT)
    ),
    "started twice": lambda guest, stream: guest.note(stream, Started(1)),
    "a note of another verb": lambda guest, stream: guest.note(stream, Connected()),
    "a note that does not exist": lambda guest, stream: guest.send(Kind.NOTE, stream, b"\x63"),
    "a result of another shape": lambda guest, stream: guest.send(Kind.RESULT, stream, b"\x00"),
    "a fail without words": lambda guest, stream: guest.send(Kind.FAIL, stream),
    "an unknown fail": lambda guest, stream: guest.fail(stream, "because"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_what_a_stream_may_not_be_told_ends_the_channel(
    attack: Callable[[ScriptedGuest, int], object],
) -> None:
    breaks(attack)


def test_data_beyond_the_window_ends_the_channel() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            for _ in range(WINDOW_BYTES // MAX_PAYLOAD):
                guest.send(Kind.DATA, stream, bytes(MAX_PAYLOAD), ERRORS)
            guest.send(Kind.DATA, stream, b"!", ERRORS)
            await guest.gone()
            assert isinstance(await session.channel.watch(), ProtocolBroken)
            while await _is_read(process.read()):
                pass

    async def _is_read(reading: Any) -> bool:
        try:
            return await reading is not None
        except ProtocolBroken:
            return False

    asyncio.run(scene())


def test_an_answer_to_a_verb_without_data_may_have_none() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            asking = asyncio.create_task(session.thaw())
            stream, _ = await guest.request()
            guest.send(Kind.DATA, stream, b"x", OUTPUT)
            with pytest.raises(ProtocolBroken):
                await asking

    asyncio.run(scene())


def test_frames_of_a_stream_that_was_dropped_here_are_passed_over() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            await process.forget()
            assert (await guest.expect(Kind.FORGET)).stream == stream
            for _ in range(50):
                guest.send(Kind.DATA, stream, bytes(MAX_PAYLOAD), OUTPUT)
            guest.ended(stream)
            asking = asyncio.create_task(session.list_execs())
            stream, _ = await guest.request()
            guest.answer(stream, Execs(()))
            assert await asking == []

    asyncio.run(scene())


def test_death_in_mid_frame_reaches_everyone_who_waits() -> None:
    async def scene() -> None:
        async def why() -> GuestGone:
            await asyncio.sleep(0.01)
            return GuestGone("box", "its memory ran out")

        async with meeting(why_gone=why) as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            waiting: list[asyncio.Task[Any]] = [
                asyncio.create_task(process.read()),
                asyncio.create_task(process.wait()),
                asyncio.create_task(process.write(bytes(2 * WINDOW_BYTES))),
                asyncio.create_task(session.stats()),
                asyncio.create_task(session.dial(80)),
                asyncio.create_task(session.files.write(b"/x", _never())),
            ]
            await asyncio.sleep(0.01)
            guest.writer.write(encode(Kind.DATA, stream, bytes(1000), OUTPUT)[:500])
            await guest.writer.drain()
            guest.writer.close()
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, GuestGone)
                assert "its memory ran out" in outcome.message
            with pytest.raises(GuestGone, match="its memory ran out"):
                await session.thaw()

    async def _never() -> Any:
        await asyncio.Event().wait()
        yield b""

    asyncio.run(scene())


def test_a_backend_that_cannot_say_why_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "WHY_GONE_S", 0.01)

    async def scene() -> None:
        async def why() -> GuestGone:
            await asyncio.Event().wait()
            return GuestGone("box", "")

        async with meeting(why_gone=why) as (guest, session):
            asking = asyncio.create_task(session.stats())
            await guest.request()
            guest.writer.close()
            with pytest.raises(GuestGone, match="its channel was closed"):
                await asking

    asyncio.run(scene())


def test_output_that_came_before_the_death_can_still_be_read() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            guest.send(Kind.DATA, stream, b"last words", OUTPUT)
            await guest.writer.drain()
            guest.writer.close()
            await session.channel.watch()
            chunk = await process.read()
            assert chunk is not None
            assert chunk.data == b"last words"
            with pytest.raises(GuestGone):
                await process.read()

    asyncio.run(scene())


def test_closing_here_ends_every_wait() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            asking = asyncio.create_task(session.stats())
            await guest.request()
            await session.close()
            with pytest.raises(GuestGone):
                await asking
            with pytest.raises(GuestGone):
                await session.stats()
            await session.close()

    asyncio.run(scene())


def test_silence_to_a_request_is_an_error_and_the_channel_goes_on() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            with pytest.raises(GuestSilent):
                await session.channel.ask(Plain(Verb.THAW), Done, 0.01)
            stream, _ = await guest.request()
            assert (await guest.expect(Kind.FORGET)).stream == stream
            guest.answer(stream, Done())
            asking = asyncio.create_task(session.thaw())
            stream, _ = await guest.request()
            guest.answer(stream, Done())
            await asking

    asyncio.run(scene())


def test_a_cancelled_request_is_forgotten_and_the_channel_goes_on() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            for verb in (session.stats, session.freeze, session.list_execs):
                asking: asyncio.Task[Any] = asyncio.create_task(verb())
                stream, _ = await guest.request()
                asking.cancel()
                await asyncio.wait([asking])
                assert asking.cancelled()
                assert (await guest.expect(Kind.FORGET)).stream == stream
            asking = asyncio.create_task(session.files.rename(b"/a", b"/b"))
            stream, _ = await guest.request()
            guest.answer(stream, Done())
            await asking

    asyncio.run(scene())


def test_requests_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_STREAMS", 3)

    async def scene() -> None:
        async with meeting() as (_, session):
            asking = [asyncio.create_task(session.stats()) for _ in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(Refused, match="3 requests"):
                await session.stats()
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)

    asyncio.run(scene())


def test_a_stream_nobody_reads_stalls_alone_and_memory_stays_bounded() -> None:
    """200 MB pass on one stream while another one's window is full and unread."""
    total = 200_000_000

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stalled = await guest.started()
            process = await starting
            for channel in (OUTPUT, ERRORS):
                for _ in range(WINDOW_BYTES // MAX_PAYLOAD):
                    guest.send(Kind.DATA, stalled, bytes(MAX_PAYLOAD), channel)
            reading = asyncio.create_task(_count(session.files.read(b"/dev/zero", length=total)))
            stream, _ = await guest.request()
            tracemalloc.start()
            await guest.output(stream, total)
            guest.send(Kind.END, stream, channel=OUTPUT)
            guest.answer(stream, Size(total))
            assert await reading == total
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 8 << 20
            guest.ended(stalled)
            chunks = 0
            while (chunk := await process.read()) is not None:
                chunks += len(chunk.data)
            assert chunks == 2 * WINDOW_BYTES
            assert (await process.wait()).status == 0

    async def _count(source: Any) -> int:
        total = 0
        async for data in source:
            total += len(data)
        return total

    asyncio.run(scene())


def test_a_window_sent_byte_by_byte_takes_few_pieces() -> None:
    inbound = Inbound((OUTPUT, ERRORS))
    for _ in range(WINDOW_BYTES):
        inbound.add(OUTPUT, b"o")
        inbound.add(ERRORS, b"e")
    with pytest.raises(ProtocolBroken):
        inbound.add(OUTPUT, b"!")
    taken = {OUTPUT: bytearray(), ERRORS: bytearray()}
    pieces = 0
    while inbound:
        piece = inbound.take()
        assert piece.offset == len(taken[piece.channel])
        taken[piece.channel] += piece.data
        pieces += 1
    assert pieces <= MANY_PIECES + 2
    assert taken == {OUTPUT: b"o" * WINDOW_BYTES, ERRORS: b"e" * WINDOW_BYTES}


def test_a_guest_that_reads_nothing_cannot_make_the_host_queue_grants() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            guest.send(Kind.WINDOW, stream, encode_window(1 << 40))
            writing = asyncio.create_task(process.write(bytes(8 << 20)))
            sent = asyncio.create_task(_blind(guest, stream, 32 << 20))
            taken = 0
            while taken < 32 << 20:
                chunk = await process.read()
                assert chunk is not None
                taken += len(chunk.data)
            await sent
            assert session.channel.unsent_bytes <= 2 * WINDOW_BYTES
            writing.cancel()
            await asyncio.wait([writing])
            grants, limit = 0, 0
            while limit < taken + WINDOW_BYTES * 3 // 4:
                frame = await guest.receive()
                if frame.kind is Kind.WINDOW:
                    grants, limit = grants + 1, decode_window(frame.payload).limit
            assert grants < taken // WINDOW_BYTES

    async def _blind(guest: ScriptedGuest, stream: int, size: int) -> None:
        """Sends at the pace of the host's reader, as if it knew of the grants it never read."""
        for _ in range(size // MAX_PAYLOAD):
            guest.send(Kind.DATA, stream, bytes(MAX_PAYLOAD), OUTPUT)
            await guest.writer.drain()
            await asyncio.sleep(0)

    asyncio.run(scene())


def test_a_guest_that_takes_no_bytes_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "SMALL_S", 0.05)

    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            process = await starting
            guest.send(Kind.WINDOW, stream, encode_window(1 << 40))
            writing = asyncio.create_task(process.write(bytes(8 << 20)))
            while session.channel.unsent_bytes <= UNSENT_BYTES:  # noqa: ASYNC110
                await asyncio.sleep(0)
            with pytest.raises(GuestSilent):
                await session.stats()
            writing.cancel()
            await asyncio.wait([writing])
            closing = asyncio.create_task(session.close())
            assert {frame.kind for frame in await guest.gone()} == {Kind.DATA}
            await closing

    asyncio.run(scene())


def test_the_stream_numbers_end() -> None:
    async def scene() -> None:
        async with meeting(next_stream=2**31 - 1) as (guest, session):
            asking = asyncio.create_task(session.thaw())
            stream, _ = await guest.request()
            guest.answer(stream, Done())
            await asking
            with pytest.raises(Refused):
                await session.thaw()

    asyncio.run(scene())


def test_flooding_notes_and_windows_does_no_harm_beyond_the_channel() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            starting = asyncio.create_task(session.start(TRUE))
            stream = await guest.started()
            await starting
            for limit in range(20_000):
                guest.send(Kind.WINDOW, stream, encode_window(limit))
            await guest.writer.drain()
            guest.send(Kind.NOTE, stream, encode_note(Started(1)))
            error: SandboxError = await session.channel.watch()
            assert isinstance(error, ProtocolBroken)

    asyncio.run(scene())
