"""A watched directory of a machine whose agent plays its part, or lies about what changed."""

from __future__ import annotations

import asyncio

import pytest
from tests.sandbox.scripted_guest import OUTPUT, ScriptedGuest, meeting

from crucible.errors import ProtocolBroken
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.session import Change, Watch
from crucible.wire import requests
from crucible.wire.answers import ChangeRecord, encode_record
from crucible.wire.frames import Kind
from crucible.wire.notes import Watching


async def opened(guest: ScriptedGuest, session: GuestSession) -> tuple[Watch, int]:
    opening = asyncio.create_task(session.watch(b"/work", recursive=True))
    stream, request = await guest.request()
    assert request == requests.Watch(b"/work", requests.WATCH_RECURSIVE)
    guest.note(stream, Watching())
    return await opening, stream


def test_changes_come_in_order_whatever_the_frames() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            watch, stream = await opened(guest, session)
            data = encode_record(ChangeRecord(0, b"a/\xff")) + encode_record(ChangeRecord(5, b""))
            for byte in data:
                guest.send(Kind.DATA, stream, bytes([byte]), OUTPUT)
            assert await watch.next() == Change(kind="created", name=b"a/\xff")
            assert await watch.next() == Change(kind="overflow", name=b"")

    asyncio.run(scene())


def test_a_watch_ends_with_its_directory() -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            watch, stream = await opened(guest, session)
            guest.send(Kind.END, stream, b"", OUTPUT)
            guest.send(Kind.RESULT, stream, b"")
            assert await watch.next() is None

    asyncio.run(scene())


@pytest.mark.parametrize(
    "record",
    [
        ChangeRecord(0, b""),
        ChangeRecord(0, b"/etc/passwd"),
        ChangeRecord(1, b"../up"),
        ChangeRecord(1, b"a//b"),
        ChangeRecord(2, b"a/.."),
        ChangeRecord(3, b"a\0b"),
        ChangeRecord(4, b"a" * 16_385),
        ChangeRecord(5, b"named"),
    ],
)
def test_names_that_cannot_lie_in_the_directory_break_the_protocol(record: ChangeRecord) -> None:
    async def scene() -> None:
        async with meeting() as (guest, session):
            watch, stream = await opened(guest, session)
            guest.send(Kind.DATA, stream, encode_record(record), OUTPUT)
            with pytest.raises(ProtocolBroken):
                await watch.next()

    asyncio.run(scene())
