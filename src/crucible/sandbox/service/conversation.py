"""One client's connection: its request, its frames, our answers. Knows no verb."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.errors import CrucibleError

_MOST_UNTAKEN = protocol.WINDOW + protocol.MAX_PAYLOAD


class ClientGone(CrucibleError):
    """The client closed its end in the middle of a conversation."""

    code = "client-gone"


@dataclass(frozen=True, slots=True)
class Incoming:
    kind: int
    payload: bytes


class Conversation:
    """Reads ahead, so that a client's leaving is noticed at once; input is bounded by its window."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._untaken = 0
        self._sending = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def over(cls, sock: socket.socket) -> Conversation:
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 20)
        return cls(reader, writer)

    async def request(self) -> dict[str, Any]:
        frame = await self.receive()
        if frame.kind != protocol.JSON:
            raise BrokenFrame("A conversation begins with a request")
        return protocol.parse_json(frame.payload)

    async def receive(self) -> Incoming:
        """The next frame; raises ClientGone when there will be none."""
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
            raise ClientGone("The client has gone")
        return frame

    async def inputs(self) -> AsyncIterator[bytes]:
        """All input of a transfer."""
        while (data := await self.input()) is not None:
            yield data

    async def input(self) -> bytes | None:
        """The next input of a transfer, or None at its end. What is given counts as taken."""
        frame = await self.receive()
        if frame.kind == protocol.END:
            return None
        if frame.kind != protocol.DATA or frame.payload[:1] != b"\0":
            raise BrokenFrame("Input was expected")
        await self.take_input(len(frame.payload) - 1)
        return frame.payload[1:]

    async def take_input(self, count: int) -> None:
        self._untaken -= count
        await self._write(protocol.taken_frame(protocol.INPUT, count))

    async def progress(self, stage: str, detail: str) -> None:
        await self._write(protocol.json_frame({"progress": [stage, detail]}))

    async def started(self, facts: dict[str, Any]) -> None:
        await self._write(protocol.json_frame({"started": facts}))

    async def data(self, channel: int, data: bytes) -> None:
        await self._write(protocol.data_frame(channel, data))

    async def end(self, channel: int) -> None:
        await self._write(protocol.end_frame(channel))

    async def succeed(self, facts: dict[str, Any]) -> None:
        await self._write(protocol.json_frame({"ok": facts}))

    async def fail(self, error: CrucibleError) -> None:
        facts = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "exit_status": error.exit_status,
        }
        with contextlib.suppress(ClientGone):
            await self._write(protocol.json_frame({"error": facts}))

    async def close(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            self._writer.close()
            await self._writer.wait_closed()

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
                payload = await self._reader.readexactly(length)
                if kind == protocol.DATA:
                    self._untaken += length - 1
                    if self._untaken > _MOST_UNTAKEN:
                        return
                self._frames.put_nowait(Incoming(kind, payload))
        except (asyncio.IncompleteReadError, OSError, BrokenFrame):
            return
        finally:
            self._frames.put_nowait(None)
