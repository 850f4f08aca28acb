"""The machine's way out over the channel: what its programs ask for, and the connections that were granted."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

from crucible.errors import GuestRefused, ProtocolBroken
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.stream import Stream
from crucible.wire.answers import Done, Records, decode_ask
from crucible.wire.notes import Connected, Listening
from crucible.wire.requests import Plain, RefuseAsk, Take, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.network.outlet import Ask

# Of one machine at once; the channel has room for as many and for commands besides.
MAX_TAKEN: Final = 512


class GuestOutlet:
    """An Outlet. Made by `open`; asks that nobody has read yet wait in the guest, which bounds them."""

    def __init__(self, channel: GuestChannel, stream: Stream) -> None:
        self._channel = channel
        self._stream = stream
        self._records = Records(decode_ask)
        self._asks: deque[Ask] = deque()
        self._taken: set[TakenConnection] = set()

    @classmethod
    async def open(cls, channel: GuestChannel) -> GuestOutlet:
        stream = await channel.open(Plain(Verb.LISTEN))
        try:
            await stream.note(Listening, SMALL_S)
        except BaseException:
            stream.close()
            raise
        return cls(channel, stream)

    async def next(self) -> Ask:
        while not self._asks:
            piece = await self._stream.take(None)
            if piece is None:
                self._stream.raise_end()
                raise ProtocolBroken("a machine stopped asking by itself")
            # Loaded here because most commands never ask.
            from crucible.sandbox.guest.asks import checked

            self._asks.extend(checked(record) for record in self._records.feed(piece.data))
        return self._asks.popleft()

    async def take(self, ask: Ask) -> TakenConnection:
        if len(self._taken) >= MAX_TAKEN:
            await self.refuse(ask)
            raise ConnectionResetError(f"The sandbox has {MAX_TAKEN} connections, the most")
        stream = await self._channel.open(Take(ask.number))
        try:
            await stream.note(Connected, SMALL_S)
        except GuestRefused as refused:
            raise ConnectionResetError(refused.message) from refused
        except BaseException:
            stream.close()
            raise
        connection = TakenConnection(stream, self._taken)
        self._taken.add(connection)
        return connection

    async def refuse(self, ask: Ask) -> None:
        with contextlib.suppress(GuestRefused):
            await self._channel.ask(RefuseAsk(ask.number), Done)

    async def close(self) -> None:
        self._stream.close()
        for connection in tuple(self._taken):
            await connection.abort()


class TakenConnection:
    """A ByteStream, without deadlines: a connection may be quiet for as long as it likes."""

    def __init__(self, stream: Stream, among: set[TakenConnection]) -> None:
        self._stream = stream
        self._among = among

    async def read(self) -> bytes:
        try:
            piece = await self._stream.take(None)
        except GuestRefused as refused:
            raise ConnectionResetError(refused.message) from refused
        return b"" if piece is None else piece.data

    async def write(self, data: bytes) -> None:
        await self._stream.put(data, None)
        if self._stream.has_failed:
            raise ConnectionResetError("The program in the sandbox reset the connection")

    async def close_write(self) -> None:
        await self._stream.put_end()

    async def close(self) -> None:
        """The guest takes a stream that is dropped after its END for closed."""
        try:
            await self._stream.put_end()
        finally:
            await self.abort()

    async def abort(self) -> None:
        self._among.discard(self)
        self._stream.close()
