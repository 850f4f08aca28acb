"""A directory of the machine that is watched. What the guest says of it is checked for shape."""

from __future__ import annotations

from collections import deque
from typing import Final

from crucible.errors import ProtocolBroken
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.refusals import shown
from crucible.sandbox.guest.stream import Stream
from crucible.sandbox.session import Change, ChangeKind
from crucible.wire.answers import CHANGES, ChangeRecord, Done, Records, decode_change
from crucible.wire.notes import Watching
from crucible.wire.requests import WATCH_RECURSIVE, Watch

MAX_NAME: Final = 16_384


class GuestWatch:
    """A Watch. Changes that nobody reads wait in the guest, whose queue has an end."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._records = Records(decode_change)
        self._changes: deque[Change] = deque()

    @classmethod
    async def open(cls, channel: GuestChannel, path: bytes, *, recursive: bool) -> GuestWatch:
        stream = await channel.open(Watch(path, WATCH_RECURSIVE * recursive))
        try:
            await stream.note(Watching, SMALL_S)
        except BaseException:
            stream.close()
            raise
        return cls(stream)

    async def next(self) -> Change | None:
        while not self._changes:
            piece = await self._stream.take(None)
            if piece is None:
                self._records.end()
                await self._stream.answer(Done, SMALL_S)
                return None
            self._changes.extend(_checked(record) for record in self._records.feed(piece.data))
        return self._changes.popleft()

    async def close(self) -> None:
        self._stream.close()


def _checked(record: ChangeRecord) -> Change:
    kind: ChangeKind = CHANGES[record.kind]
    name = record.name
    if kind == "overflow":
        if name:
            raise ProtocolBroken("an overflow of a watch has a name")
    elif len(name) > MAX_NAME or b"\0" in name or {b"", b".", b".."} & set(name.split(b"/")):
        raise ProtocolBroken(f"a watch is said to have seen {shown(name)!r}")
    return Change(kind=kind, name=name)
