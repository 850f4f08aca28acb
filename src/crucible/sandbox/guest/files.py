"""The machine's files over the channel. Names that come back are checked for shape, not trusted."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Sequence
from typing import Final

from crucible.errors import GuestRefused, ProtocolBroken
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.refusals import shown
from crucible.sandbox.guest.stream import AnswerT, Stream
from crucible.sandbox.session import Entry, EntryType
from crucible.wire.answers import Count, Done, EntryRecord, Records, Size, Statted, decode_entry
from crucible.wire.requests import (
    LAYER_CHANGES,
    WRITE_APPEND,
    WRITE_PARENTS,
    LayerOut,
    ListDir,
    MakeDir,
    Read,
    Remove,
    Rename,
    Request,
    Stat,
    TarIn,
    TarOut,
    Tree,
    Write,
)

BULK_S: Final = 300.0
MAX_LISTED: Final = 100_000
_TYPES: Final[tuple[EntryType, ...]] = ("file", "directory", "symlink", "other")


class GuestFiles:
    """Files. Bulk verbs may take any time, but not BULK_S without a sign of the guest."""

    def __init__(self, channel: GuestChannel) -> None:
        self._channel = channel

    async def read(self, path: bytes, *, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]:
        taken = 0
        with await self._channel.open(Read(path, offset, length)) as stream:
            while (piece := await stream.take(BULK_S)) is not None:
                taken += len(piece.data)
                yield piece.data
            answer = await stream.answer(Size, SMALL_S)
        if answer.size != taken:
            raise ProtocolBroken(f"a file of {answer.size} bytes came as {taken}")

    async def write(
        self,
        path: bytes,
        data: AsyncIterator[bytes] | bytes,
        *,
        mode: int = 0o644,
        owner: str = "",
        append: bool = False,
        make_parents: bool = False,
    ) -> int:
        flags = (WRITE_APPEND if append else 0) | (WRITE_PARENTS if make_parents else 0)
        answer = await self._pour(Write(path, mode, owner, flags), data, Size)
        return answer.size

    async def stat(self, path: bytes, *, follow: bool = True) -> Entry:
        answer = await self._channel.ask(Stat(path, follow), Statted)
        return _entry(answer.entry)

    async def list(self, path: bytes) -> builtins.list[Entry]:
        entries: builtins.list[Entry] = []
        async for entry in self._entries(ListDir(path)):
            if b"/" in entry.name or entry.name in (b"", b".", b".."):
                raise ProtocolBroken(f"a directory is said to hold {shown(entry.name)!r}")
            if len(entries) == MAX_LISTED:
                raise GuestRefused(
                    "too-large", f"{shown(path)} holds more than {MAX_LISTED} entries"
                )
            entries.append(entry)
        return entries

    async def remove(self, path: bytes, *, recursive: bool = False) -> None:
        await self._channel.ask(Remove(path, recursive), Done, BULK_S)

    async def rename(self, old: bytes, new: bytes) -> None:
        await self._channel.ask(Rename(old, new), Done)

    async def mkdir(
        self, path: bytes, *, mode: int = 0o755, owner: str = "", parents: bool = False
    ) -> None:
        await self._channel.ask(MakeDir(path, mode, owner, parents), Done)

    async def tar_out(self, root: bytes, names: Sequence[bytes] = ()) -> AsyncIterator[bytes]:
        with await self._channel.open(TarOut(root, tuple(names))) as stream:
            while (piece := await stream.take(BULK_S)) is not None:
                yield piece.data
            await stream.answer(Count, SMALL_S)

    async def layer_out(self) -> AsyncIterator[bytes]:
        with await self._channel.open(LayerOut(LAYER_CHANGES)) as stream:
            while (piece := await stream.take(BULK_S)) is not None:
                yield piece.data
            await stream.answer(Count, SMALL_S)

    async def tar_in(self, root: bytes, data: AsyncIterator[bytes], *, owner: str = "") -> int:
        answer = await self._pour(TarIn(root, owner), data, Count)
        return answer.total

    async def tree(self, root: bytes, *, hashed: bool = False) -> AsyncIterator[Entry]:
        async for entry in self._entries(Tree(root, hashed)):
            if {b"", b".", b".."} & set(entry.name.split(b"/")):
                raise ProtocolBroken(f"a tree is said to hold {shown(entry.name)!r}")
            yield entry

    async def _entries(self, request: ListDir | Tree) -> AsyncIterator[Entry]:
        records, seen = Records(decode_entry), 0
        with await self._channel.open(request) as stream:
            while (piece := await stream.take(BULK_S)) is not None:
                for record in records.feed(piece.data):
                    seen += 1
                    yield _entry(record)
            records.end()
            answer = await stream.answer(Count, SMALL_S)
        if answer.total != seen:
            raise ProtocolBroken(f"a listing of {answer.total} entries came as {seen}")

    async def _pour(
        self, request: Request, data: AsyncIterator[bytes] | bytes, answer: type[AnswerT]
    ) -> AnswerT:
        with await self._channel.open(request) as stream:
            if isinstance(data, bytes):
                await stream.put(data, BULK_S)
                await stream.put_end()
            else:
                await _feed(stream, data)
            return await stream.answer(answer, BULK_S)


async def _feed(stream: Stream, source: AsyncIterator[bytes]) -> None:
    """Sends the source to its end, unless the stream ends before: then the source is left."""
    feeding = asyncio.create_task(_send_all(stream, source))
    ended = asyncio.create_task(stream.ended())
    try:
        await asyncio.wait((feeding, ended), return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()
    finally:
        feeding.cancel()
        ended.cancel()
        await asyncio.gather(feeding, ended, return_exceptions=True)


async def _send_all(stream: Stream, source: AsyncIterator[bytes]) -> None:
    async for data in source:
        await stream.put(data, BULK_S)
    await stream.put_end()


def _entry(record: EntryRecord) -> Entry:
    return Entry(
        name=record.name,
        type=_TYPES[record.type],
        mode=record.mode,
        size=record.size,
        mtime_ns=record.mtime_ns,
        uid=record.uid,
        gid=record.gid,
        target=record.target,
        sha256=record.sha256,
    )
