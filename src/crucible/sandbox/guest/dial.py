"""A connection to a port in the machine."""

from __future__ import annotations

from crucible.errors import GuestRefused
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.stream import Stream
from crucible.wire.notes import Connected
from crucible.wire.requests import Dial


class GuestConnection:
    """A ByteStream, without deadlines: a connection may be quiet for as long as it likes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @classmethod
    async def dial(cls, channel: GuestChannel, port: int) -> GuestConnection:
        stream = await channel.open(Dial(port))
        try:
            await stream.note(Connected, SMALL_S)
        except BaseException:
            stream.close()
            raise
        return cls(stream)

    async def read(self) -> bytes:
        try:
            piece = await self._stream.take(None)
        except GuestRefused as refused:
            raise ConnectionResetError(refused.message) from refused
        return b"" if piece is None else piece.data

    async def write(self, data: bytes) -> None:
        await self._stream.put(data, None)

    async def close_write(self) -> None:
        await self._stream.put_end()

    async def close(self) -> None:
        self._stream.close()
