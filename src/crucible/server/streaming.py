"""Answers that go on: numbered events of a command, and work that is given up when its caller goes."""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from crucible.errors import BadRequest, ClientLeft, CrucibleError
from crucible.sandbox.session import Channel, Chunk
from crucible.sandbox.watching import Starts
from crucible.server.passage import Passage
from crucible.server.problems import fields_of

BEAT_S = 15.0
_LARGEST_OFFSET = 1 << 62
_LONGEST_TAIL = 3

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Cancels the work, and raises ClientLeft, when whoever asked for it has gone. The body must have been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_gone(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientLeft
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


LastWords = Callable[[CrucibleError, str], bytes]


def told_as_error(error: CrucibleError, request_id: str) -> bytes:
    return event("error", fields_of(error, request_id))


class EventStream(Response):
    """Server-sent events. `left` is called if the caller went before they ended; a beat shows it that we are there.

    A caller who is let in no more while they come is told with `last`, and has left then.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        left: Callable[[], Awaitable[None]] | None = None,
        last: LastWords = told_as_error,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._left = left
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            has_left = not sending.done() or sending.exception() is not None
        except asyncio.CancelledError:
            # We are the ones who leave: the command stays for who comes next.
            has_left = False
            raise
        finally:
            leaving.cancel()
            sending.cancel()
            outcomes = await asyncio.gather(sending, leaving, return_exceptions=True)
            # Nobody can be told of a defect any more but who reads the log.
            if isinstance(outcomes[0], Exception) and not isinstance(outcomes[0], OSError):
                traceback.print_exception(outcomes[0])
            passage: Passage = scope["state"]["passage"]
            if passage.ended is not None:
                await passage.say_last(self._last(passage.ended, scope["state"]["request_id"]))
            await self._events.aclose()
            if has_left and self._left is not None:
                await self._left()

    async def _send_all(self, send: Send) -> None:
        begin: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(begin)
        following = aiter(self._events)
        coming: asyncio.Future[bytes] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(_next(following))
                done, _ = await asyncio.wait({coming}, timeout=BEAT_S)
                if not done:
                    await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
                    continue
                data = coming.result()
                coming = None
                if not data:
                    break
                await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _next(events: AsyncIterator[bytes]) -> bytes:
    return await anext(events, b"")


def event(kind: str, data: dict[str, Any], number: str | None = None) -> bytes:
    lines = f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
    # What a sandbox tells may hold halves of characters; in JSON they can be written as escapes.
    return (lines if number is None else f"id: {number}\n{lines}").encode(errors="backslashreplace")


class Numbering:
    """Output as events. An event's number is how much of each channel was told with it: `OUTPUT.ERRORS`.

    A character whose bytes come in two pieces is told whole: its beginning waits for the rest.
    """

    def __init__(self, starts: Starts) -> None:
        self._told = dict(starts)
        self._tails = {Channel.OUTPUT: b"", Channel.ERRORS: b""}

    def tell(self, chunk: Chunk) -> bytes:
        channel = chunk.channel
        if chunk.offset > self._told[channel] + len(self._tails[channel]):
            self._told[channel], self._tails[channel] = chunk.offset, b""
        data = self._tails[channel] + chunk.data
        cut = len(data) - _begun(data)
        self._tails[channel] = data[cut:]
        return self._event(channel, data[:cut]) if cut else b""

    def rest(self) -> bytes:
        """What was held back, at the end."""
        return b"".join(self._event(channel, tail) for channel, tail in self._tails.items() if tail)

    def _event(self, channel: Channel, data: bytes) -> bytes:
        self._told[channel] += len(data)
        number = f"{self._told[Channel.OUTPUT]}.{self._told[Channel.ERRORS]}"
        return event("output" if channel is Channel.OUTPUT else "errors", _shown(data), number)


def parse_number(text: str | None) -> Starts:
    """Where a `Last-Event-ID` says that a reader was."""
    starts = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
    if text:
        output, dot, errors = text.partition(".")
        is_number = all(
            part.isascii() and part.isdecimal() and len(part) < 20 for part in (output, errors)
        )
        if not dot or not is_number:
            raise BadRequest("Last-Event-ID is not the number of an event, like 1024.0")
        starts[Channel.OUTPUT] = min(int(output), _LARGEST_OFFSET)
        starts[Channel.ERRORS] = min(int(errors), _LARGEST_OFFSET)
    return starts


def _shown(data: bytes) -> dict[str, Any]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _begun(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that is not whole."""
    for back in range(1, min(_LONGEST_TAIL, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0
