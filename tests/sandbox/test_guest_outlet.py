"""The way out of a machine whose agent plays its part, or lies about what is asked for."""

from __future__ import annotations

import asyncio

import pytest
from tests.sandbox.scripted_guest import OUTPUT, ScriptedGuest, failed, meeting

from crucible.errors import GuestGone, ProtocolBroken
from crucible.network.outlet import Ask, ByteStream, Outlet
from crucible.sandbox.guest import outlet as outlet_module
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.session import HasOutlet
from crucible.wire.answers import AskRecord, Done, encode_record
from crucible.wire.frames import TAKE_WINDOW_BYTES, Kind
from crucible.wire.notes import Connected, Listening, encode_window
from crucible.wire.requests import Plain, RefuseAsk, Take, Verb

FOUR, SIX = bytes([198, 18, 1, 0]), bytes.fromhex("20010db8000000000000000000000001")


async def opened(guest: ScriptedGuest, session: GuestSession) -> tuple[Outlet, int]:
    opening = asyncio.create_task(session.outlet())
    stream, request = await guest.request()
    assert request == Plain(Verb.LISTEN)
    guest.note(stream, Listening())
    return await opening, stream


async def taken(guest: ScriptedGuest, outlet: Outlet, number: int = 1) -> tuple[ByteStream, int]:
    taking = asyncio.create_task(outlet.take(ask(number)))
    stream, request = await guest.request()
    assert request == Take(number)
    guest.note(stream, Connected())
    return await taking, stream


def ask(number: int) -> Ask:
    return Ask(number=number, name="example.com", address="198.18.1.0", port=443)


def test_a_guest_session_has_an_outlet() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            has_outlet: HasOutlet = session
            opening = asyncio.create_task(has_outlet.outlet())
            stream, _ = await guest.request()
            guest.note(stream, Listening())
            await (await opening).close()

    asyncio.run(scene())


def test_asks_come_in_order_whatever_the_frames() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, stream = await opened(guest, session)
            data = encode_record(AskRecord(1, b"example.com", FOUR, 443))
            data += encode_record(AskRecord(2, b"", SIX, 65535))
            for byte in data:
                guest.send(Kind.DATA, stream, bytes([byte]), OUTPUT)
            assert await outlet.next() == ask(1)
            assert await outlet.next() == Ask(number=2, name="", address="2001:db8::1", port=65535)

    asyncio.run(scene())


@pytest.mark.parametrize(
    "record",
    [
        encode_record(AskRecord(1, b"Example.com", FOUR, 80)),
        encode_record(AskRecord(1, b"example.com.", FOUR, 80)),
        encode_record(AskRecord(1, b"example.com\n", FOUR, 80)),
        encode_record(AskRecord(1, b"a..b", FOUR, 80)),
        encode_record(AskRecord(1, b"\xff\xfe", FOUR, 80)),
        encode_record(AskRecord(1, b"a/b", FOUR, 80)),
        encode_record(AskRecord(1, b"a" * 64, FOUR, 80)),
        encode_record(AskRecord(1, b".".join([b"a" * 63] * 4), FOUR, 80)),
        encode_record(AskRecord(1, b"a", FOUR, 0)),
        encode_record(AskRecord(1, b"a", FOUR + b"x", 80)),
        encode_record(AskRecord(1, b"a", b"", 80)),
        b"\xff\xff\xff\xff",
        b"\x01\0\0\0x",
    ],
)
def test_an_agent_that_lies_about_an_ask_breaks_the_protocol(record: bytes) -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, stream = await opened(guest, session)
            guest.send(Kind.DATA, stream, record, OUTPUT)
            with pytest.raises(ProtocolBroken):
                await outlet.next()

    asyncio.run(scene())


def test_whoever_waits_for_an_ask_is_told_when_the_machine_ends() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            waiting = asyncio.create_task(outlet.next())
            await asyncio.sleep(0)
            guest.writer.close()
            with pytest.raises(GuestGone):
                await waiting

    asyncio.run(scene())


def test_an_agent_that_stops_asking_by_itself_breaks_the_protocol() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, stream = await opened(guest, session)
            guest.send(Kind.END, stream, channel=OUTPUT)
            guest.answer(stream, Done())
            with pytest.raises(ProtocolBroken):
                await outlet.next()

    asyncio.run(scene())


def test_a_machine_without_network_says_so() -> None:
    assert "no network" in failed(lambda session: session.outlet(), "io", "no network").message


def test_an_ask_is_refused_and_one_that_is_over_is_no_error() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            for code in ("", "not-found"):
                refusing = asyncio.create_task(outlet.refuse(ask(7)))
                stream, request = await guest.request()
                assert request == RefuseAsk(7)
                if code:
                    guest.fail(stream, code)
                else:
                    guest.answer(stream, Done())
                await refusing

    asyncio.run(scene())


def test_an_ask_that_is_over_cannot_be_taken() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            taking = asyncio.create_task(outlet.take(ask(7)))
            stream, _ = await guest.request()
            guest.fail(stream, "not-found")
            with pytest.raises(ConnectionResetError):
                await taking

    asyncio.run(scene())


def test_a_connection_begins_with_a_small_window_and_grows_with_it() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            connection, stream = await taken(guest, outlet)
            content = bytes(range(256)) * 1024
            writing = asyncio.create_task(connection.write(content))
            received = b""
            while len(received) < TAKE_WINDOW_BYTES:
                received += (await guest.expect(Kind.DATA)).payload
            assert len(received) == TAKE_WINDOW_BYTES
            assert not writing.done()
            guest.send(Kind.WINDOW, stream, encode_window(len(content)))
            await writing
            while len(received) < len(content):
                received += (await guest.expect(Kind.DATA)).payload
            assert received == content

    asyncio.run(scene())


def test_closing_ends_before_it_forgets_and_aborting_only_forgets() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            connection, stream = await taken(guest, outlet, 1)
            await connection.close()
            await connection.close()
            await connection.abort()
            assert [(await guest.receive()).kind for _ in range(2)] == [Kind.END, Kind.FORGET]
            connection, stream = await taken(guest, outlet, 2)
            await connection.abort()
            await connection.abort()
            frame = await guest.expect(Kind.FORGET)
            assert frame.stream == stream

    asyncio.run(scene())


def test_a_reset_is_met_by_whoever_reads_or_writes() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            connection, stream = await taken(guest, outlet)
            guest.send(Kind.DATA, stream, b"last", OUTPUT)
            guest.fail(stream, "reset")
            assert await connection.read() == b"last"
            with pytest.raises(ConnectionResetError):
                await connection.read()
            with pytest.raises(ConnectionResetError):
                await connection.write(b"x")

    asyncio.run(scene())


def test_closing_the_outlet_aborts_what_was_taken() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, listening = await opened(guest, session)
            _, stream = await taken(guest, outlet)
            await outlet.close()
            frames = [await guest.expect(Kind.FORGET) for _ in range(2)]
            assert {frame.stream for frame in frames} == {listening, stream}

    asyncio.run(scene())


def test_one_connection_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet_module, "MAX_TAKEN", 1)

    async def scene() -> None:
        async with meeting() as (guest, session):
            outlet, _ = await opened(guest, session)
            connection, _ = await taken(guest, outlet, 1)
            taking = asyncio.create_task(outlet.take(ask(2)))
            refused, request = await guest.request()
            assert request == RefuseAsk(2)
            guest.answer(refused, Done())
            with pytest.raises(ConnectionResetError, match="the most"):
                await taking
            await connection.abort()
            await guest.expect(Kind.FORGET)
            await taken(guest, outlet, 3)

    asyncio.run(scene())
