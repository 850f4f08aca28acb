"""The file verbs against a guest that plays along, refuses, or answers badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from tests.sandbox.scripted_guest import OUTPUT, ScriptedGuest, answered, collected, failed, played

from crucible.errors import (
    GuestRefused,
    ProtocolBroken,
)
from crucible.sandbox.guest import files as files_module
from crucible.sandbox.guest.session import GuestSession
from crucible.wire import requests
from crucible.wire.answers import (
    Count,
    Done,
    EntryRecord,
    Size,
    Statted,
    encode_record,
)
from crucible.wire.frames import WINDOW_BYTES, Kind

FILE = EntryRecord(b"a", 0, 0o644, 5, 17, 1000, 1000, b"", bytes(32))


def test_a_file_is_read_in_order_and_its_size_is_checked() -> None:
    def part_saying(size: int) -> Callable[[ScriptedGuest], Coroutine[Any, Any, None]]:
        async def part(guest: ScriptedGuest) -> None:
            stream, request = await guest.request()
            assert request == requests.Read(b"/f\xff", 3, 6)
            guest.send(Kind.DATA, stream, b"abc", OUTPUT)
            guest.send(Kind.DATA, stream, b"def", OUTPUT)
            guest.send(Kind.END, stream, channel=OUTPUT)
            guest.answer(stream, Size(size))

        return part

    def call(session: GuestSession) -> Coroutine[Any, Any, list[Any]]:
        return collected(session.files.read(b"/f\xff", offset=3, length=6))

    assert b"".join(played(call, part_saying(6))) == b"abcdef"
    with pytest.raises(ProtocolBroken):
        played(call, part_saying(7))


def test_a_read_that_is_left_is_forgotten() -> None:
    async def call(session: GuestSession) -> None:
        reading = session.files.read(b"/f")
        assert await anext(reading) == b"abc"
        await reading.aclose()  # type: ignore[attr-defined]

    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        guest.send(Kind.DATA, stream, b"abc", OUTPUT)
        assert (await guest.expect(Kind.FORGET)).stream == stream

    played(call, part)


def test_a_failure_in_mid_read_comes_after_what_was_read() -> None:
    async def call(session: GuestSession) -> None:
        reading = session.files.read(b"/f")
        assert await anext(reading) == b"abc"
        with pytest.raises(GuestRefused, match="/f"):
            await anext(reading)

    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        guest.send(Kind.DATA, stream, b"abc", OUTPUT)
        guest.fail(stream, "io", "bad sector")

    played(call, part)


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("size", [0, 1, 65536, 3 * WINDOW_BYTES + 1])
def test_a_file_is_written_whole(size: int) -> None:
    data = bytes(size)

    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.Write(b"/f", 0o600, "me", 3)
        assert await guest.input(stream) == data
        guest.answer(stream, Size(size))

    def call(source: Any) -> Callable[[GuestSession], Coroutine[Any, Any, int]]:
        return lambda session: session.files.write(
            b"/f", source, mode=0o600, owner="me", append=True, make_parents=True
        )

    assert played(call(data), part) == size
    assert played(call(_pieces(data[:10], b"", data[10:])), part) == size


def test_a_refused_upload_does_not_wait_for_its_source() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    error = failed(lambda session: session.files.write(b"/f", never()), "no-space")
    assert "full" in error.message
    error = failed(lambda session: session.files.tar_in(b"/f", never()), "unsafe-archive", "../x")
    assert "../x" in error.message


def test_a_source_that_breaks_drops_the_upload() -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b"x"
        raise OSError("the source is gone")

    async def part(guest: ScriptedGuest) -> None:
        await guest.request()
        await guest.expect(Kind.DATA)
        await guest.expect(Kind.FORGET)

    with pytest.raises(OSError, match="the source is gone"):
        played(lambda session: session.files.write(b"/f", breaking()), part)


def test_small_file_verbs_say_what_they_were_asked() -> None:
    entry = answered(
        lambda session: session.files.stat(b"/a", follow=False),
        requests.Stat(b"/a", False),
        Statted(FILE),
    )
    assert (entry.name, entry.type, entry.mode, entry.uid) == (b"a", "file", 0o644, 1000)
    answered(
        lambda session: session.files.remove(b"/a", recursive=True),
        requests.Remove(b"/a", True),
        Done(),
    )
    answered(
        lambda session: session.files.rename(b"/a", b"/b"), requests.Rename(b"/a", b"/b"), Done()
    )
    answered(
        lambda session: session.files.mkdir(b"/d", mode=0o700, owner="me", parents=True),
        requests.MakeDir(b"/d", 0o700, "me", True),
        Done(),
    )


@pytest.mark.parametrize("code", ["not-found", "exists", "permission", "not-a-directory", "io"])
def test_refusals_of_files_name_the_path(code: str) -> None:
    assert "/a b" in failed(lambda session: session.files.stat(b"/a b"), code, "why").message


def listing(*names: bytes, count: int | None = None) -> Callable[[ScriptedGuest], Any]:
    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        data = b"".join(encode_record(FILE._replace(name=name)) for name in names)
        for start in range(0, len(data), 50):
            guest.send(Kind.DATA, stream, data[start : start + 50], OUTPUT)
        guest.send(Kind.END, stream, channel=OUTPUT)
        guest.answer(stream, Count(len(names) if count is None else count))

    return part


def test_listings_come_record_by_record() -> None:
    entries = played(lambda session: session.files.list(b"/"), listing(b"a", b"b\xff", b"..c"))
    assert [entry.name for entry in entries] == [b"a", b"b\xff", b"..c"]
    entries = played(
        lambda session: collected(session.files.tree(b"/w", hashed=True)), listing(b"a", b"a/b")
    )
    assert [entry.name for entry in entries] == [b"a", b"a/b"]
    assert entries[0].sha256 == bytes(32)
    assert played(lambda session: session.files.list(b"/"), listing()) == []


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"/etc"])
def test_a_directory_cannot_hold_such_a_name(name: bytes) -> None:
    with pytest.raises(ProtocolBroken):
        played(lambda session: session.files.list(b"/"), listing(b"fine", name))


@pytest.mark.parametrize("name", [b"", b"..", b"a/../../etc/passwd", b"/etc", b"a//b", b"a/"])
def test_a_tree_cannot_hold_such_a_name(name: bytes) -> None:
    with pytest.raises(ProtocolBroken):
        played(lambda session: collected(session.files.tree(b"/w")), listing(b"fine", name))


def test_a_listing_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ProtocolBroken):
        played(lambda session: session.files.list(b"/"), listing(b"a", count=2))


def test_a_listing_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_LISTED", 3)

    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        for _ in range(4):
            guest.send(Kind.DATA, stream, encode_record(FILE), OUTPUT)
        assert (await guest.expect(Kind.FORGET)).stream == stream

    with pytest.raises(GuestRefused, match="more than 3 entries"):
        played(lambda session: session.files.list(b"/"), part)


def test_a_layer_comes_as_it_is_sent() -> None:
    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.LayerOut(requests.LAYER_CHANGES)
        await guest.output(stream, WINDOW_BYTES + 10)
        guest.send(Kind.END, stream, channel=OUTPUT)
        guest.answer(stream, Count(1))

    taken = played(lambda session: collected(session.files.layer_out()), part)
    assert sum(map(len, taken)) == WINDOW_BYTES + 10


def test_tars_go_both_ways() -> None:
    async def out(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.TarOut(b"/w", (b"a",))
        await guest.output(stream, WINDOW_BYTES + 10)
        guest.send(Kind.END, stream, channel=OUTPUT)
        guest.answer(stream, Count(1))

    taken = played(lambda session: collected(session.files.tar_out(b"/w", [b"a"])), out)
    assert sum(map(len, taken)) == WINDOW_BYTES + 10

    async def into(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == requests.TarIn(b"/w", "me")
        assert await guest.input(stream) == bytes(WINDOW_BYTES * 2)
        guest.answer(stream, Count(5))

    source = _pieces(bytes(WINDOW_BYTES), bytes(WINDOW_BYTES))
    assert played(lambda session: session.files.tar_in(b"/w", source, owner="me"), into) == 5
