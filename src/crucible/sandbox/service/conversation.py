"""One client's connection: its request, its frames, our answers. Knows no verb."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.errors import CrucibleError

_MOST_UNTAKEN = protocol.WINDOW + protocol.MAX_PAYLOAD
_MOST_WAITING = 1024

T = TypeVar("T")
Taken = Callable[[int, int], None]


class ClientGone(CrucibleError):
    """The client closed its end in the middle of a conversation."""

    code = "client-gone"


class Incoming(NamedTuple):
    kind: int
    payload: bytes


class Conversation:
    """Reads ahead, so that a client's leaving is noticed at once; what it may send ahead is bounded.

    What we send stays within the client's windows: a client that does not read holds up itself alone.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._failure: CrucibleError = ClientGone("The client has gone")
        self._untaken = 0
        self._unread = {protocol.OUTPUT: 0, protocol.ERRORS: 0}
        self._room = asyncio.Condition()
        self._on_taken: Taken | None = None
        self._sending = asyncio.Lock()
        self._gone = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def over(cls, sock: socket.socket) -> Conversation:
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 20)
        return cls(reader, writer)

    async def request(self, deadline_s: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(deadline_s):
                frame = await self.receive()
        except TimeoutError:
            raise BrokenFrame(f"No request came within {deadline_s:g} s") from None
        if frame.kind != protocol.JSON:
            raise BrokenFrame("A conversation begins with a request")
        return protocol.parse_json(frame.payload)

    async def receive(self) -> Incoming:
        """The next frame; raises ClientGone when there will be none."""
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
            raise self._failure
        return frame

    async def gone(self) -> None:
        """Returns when the client has left, or has sent what no client sends."""
        await self._gone.wait()

    def tell_taken(self, listener: Taken) -> None:
        """From here on `listener` is told which channel of output was taken, and how much of it."""
        self._on_taken = listener

    async def inputs(self) -> AsyncIterator[bytes]:
        """All input of a transfer."""
        while (data := await self.input()) is not None:
            yield data

    async def input(self) -> bytes | None:
        """The next input of a transfer, or None at its end. What is given counts as taken."""
        frame = await self.receive()
        if frame.kind == protocol.END:
            return None
        if frame.kind != protocol.DATA:
            raise BrokenFrame("Input was expected")
        await self.take_input(len(frame.payload) - 1)
        return frame.payload[1:]

    async def take_input(self, count: int) -> None:
        self._untaken -= count
        await self._write(protocol.taken_frame(protocol.INPUT, count))

    async def accept(self) -> None:
        await self._write(protocol.json_frame({"accepted": {}}))

    async def progress(self, stage: str, detail: str) -> None:
        await self._write(protocol.json_frame({"progress": [stage, detail]}))

    async def notice(self, text: str) -> None:
        await self._write(protocol.json_frame({"notice": text}))

    async def started(self, facts: dict[str, Any]) -> None:
        await self._write(protocol.json_frame({"started": facts}))

    async def reply(self, facts: dict[str, Any]) -> None:
        """To something the client asked for in the middle of a conversation."""
        await self._write(protocol.json_frame({"done": facts}))

    async def data(self, channel: int, data: bytes) -> None:
        """Waits while the client has not taken what was sent before."""
        for begin in range(0, len(data), protocol.WINDOW):
            piece = data[begin : begin + protocol.WINDOW]
            await self._wait_for_room(channel, len(piece))
            await self._write(protocol.data_frame(channel, piece))

    async def end(self, channel: int) -> None:
        await self._write(protocol.end_frame(channel))

    async def succeed(self, facts: dict[str, Any]) -> None:
        await self._write(protocol.json_frame({"ok": facts}))

    async def while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Work whose result only this client wants: without the client it is given up."""
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(self.gone())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientGone("The client has gone")
        finally:
            leaving.cancel()
            working.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def fail(self, error: CrucibleError) -> None:
        with contextlib.suppress(ClientGone):
            await self._write(protocol.json_frame({"error": error.as_fields()}))

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(OSError):
            self._writer.close()
            await self._writer.wait_closed()

    async def _wait_for_room(self, channel: int, size: int) -> None:
        async with self._room:
            await self._room.wait_for(
                lambda: self._gone.is_set() or self._unread[channel] + size <= protocol.WINDOW
            )
            if self._gone.is_set():
                raise self._failure
            self._unread[channel] += size

    async def _write(self, frame: bytes) -> None:
        async with self._sending:
            try:
                self._writer.write(frame)
                await self._writer.drain()
            except OSError:
                raise ClientGone("The client has gone") from None

    async def _read(self) -> None:
        try:
            while True:
                header = await self._reader.readexactly(protocol.HEADER_BYTES)
                kind, length = protocol.parse_header(header)
                await self._take(Incoming(kind, await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            return
        except BrokenFrame as broken:
            self._failure = broken
        finally:
            self._gone.set()
            self._frames.put_nowait(None)
            async with self._room:
                self._room.notify_all()

    async def _take(self, frame: Incoming) -> None:
        if frame.kind == protocol.TAKEN:
            await self._taken(*protocol.parse_taken(frame.payload))
            return
        if frame.kind == protocol.DATA:
            if frame.payload[:1] != b"\0":
                raise BrokenFrame("A client sends data on channel 0 only")
            self._untaken += len(frame.payload) - 1
        if self._untaken > _MOST_UNTAKEN or self._frames.qsize() >= _MOST_WAITING:
            raise BrokenFrame("A client sent more than it may")
        self._frames.put_nowait(frame)

    async def _taken(self, channel: int, count: int) -> None:
        if count > self._unread.get(channel, -1):
            raise BrokenFrame("A client took what it was not sent")
        async with self._room:
            self._unread[channel] -= count
            self._room.notify_all()
        if self._on_taken is not None:
            self._on_taken(channel, count)
