"""Connect RPC with the JSON codec: one message each way, or a stream of messages in envelopes.

An envelope is a byte of flags, four bytes of length, the highest first, and JSON; the last one carries the outcome.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from crucible.errors import BadRequest, CrucibleError, MalformedBody
from crucible.server.domain import domain_of
from crucible.server.passage import Passage
from crucible.server.wires.e2b.access import named_sandbox
from crucible.server.wires.e2b.answers import is_gone, not_running, rpc_error, rpc_refusal

LAST: Final = 0x02
COMPRESSED: Final = 0x01
HEADER_BYTES: Final = 5
MAX_MESSAGE: Final = 4 << 20
STREAM_TYPE: Final = "application/connect+json"
DEFAULT_BEAT_S: Final = 50.0

Values = dict[str, Any]
Unary = Callable[[Request, Values], Awaitable[Values]]
Streaming = Callable[[Request, Values], Awaitable[AsyncIterator[Values]]]


def unary(path: str, serve: Unary) -> Route:
    async def answer(request: Request) -> Response:
        try:
            return JSONResponse(await serve(request, parsed(await request.body())))
        except CrucibleError as error:
            return _refusal(request, error)

    return Route(path, answer, methods=["POST"])


def streaming(path: str, serve: Streaming, beat: Values) -> Route:
    """`beat` is sent when there was nothing to tell for as long as the client said it would wait."""

    async def answer(request: Request) -> Response:
        try:
            body = await request.body()
            messages = envelopes(bytearray(body))
            if len(messages) != 1:
                raise BadRequest("The request is not one message in an envelope")
            return Stream(await serve(request, messages[0]), beat=beat, beat_s=_beat_s(request))
        except CrucibleError as error:
            return _refusal(request, error)

    return Route(path, answer, methods=["POST"])


def parsed(data: bytes | bytearray) -> Values:
    try:
        values = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise MalformedBody("The message is not JSON") from None
    if not isinstance(values, dict):
        raise MalformedBody("The message is not an object")
    return values


def envelopes(held: bytearray) -> list[Values]:
    """The whole messages of what is held, which are taken out; the last envelope says nothing to us."""
    found = []
    while len(held) >= HEADER_BYTES:
        flags, length = held[0], int.from_bytes(held[1:HEADER_BYTES], "big")
        if length > MAX_MESSAGE:
            raise BadRequest(f"A message of {length} bytes is too long")
        if flags & COMPRESSED:
            raise BadRequest("Messages that are compressed are not served")
        if len(held) < HEADER_BYTES + length:
            break
        if not flags & LAST:
            found.append(parsed(held[HEADER_BYTES : HEADER_BYTES + length]))
        del held[: HEADER_BYTES + length]
    return found


def envelope(values: Values, flags: int = 0) -> bytes:
    data = json.dumps(values, separators=(",", ":")).encode()
    return bytes([flags]) + len(data).to_bytes(4, "big") + data


class Stream(Response):
    """Messages until there are no more, then the outcome. Whoever leaves before only stops listening."""

    def __init__(self, messages: AsyncIterator[Values], *, beat: Values, beat_s: float) -> None:
        super().__init__(media_type=STREAM_TYPE)
        del self.headers["content-length"]
        self._messages = messages
        self._beat = envelope(beat)
        self._beat_s = beat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            passage: Passage = scope["state"]["passage"]
            if passage.ended is not None:
                outcome = {"error": rpc_error(passage.ended)}
                await passage.say_last(envelope(outcome, LAST))
            close = getattr(self._messages, "aclose", None)
            if close is not None:
                await close()

    async def _send_all(self, send: Send) -> None:
        begin: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(begin)
        outcome: Values = {}
        try:
            async for data in self._beaten():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except CrucibleError as error:
            outcome = {"error": rpc_error(error)}
        last = envelope(outcome, LAST)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _beaten(self) -> AsyncIterator[bytes]:
        coming: asyncio.Future[Values | None] | None = None
        following = aiter(self._messages)
        try:
            while True:
                coming = coming or asyncio.ensure_future(_next(following))
                done, _ = await asyncio.wait({coming}, timeout=self._beat_s)
                if not done:
                    yield self._beat
                    continue
                message, coming = coming.result(), None
                if message is None:
                    return
                yield envelope(message)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


async def _next(messages: AsyncIterator[Values]) -> Values | None:
    return await anext(messages, None)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _beat_s(request: Request) -> float:
    given = request.headers.get("keepalive-ping-interval", "")
    return (
        float(min(max(int(given), 1), 600))
        if given.isdecimal() and len(given) < 6
        else DEFAULT_BEAT_S
    )


def _refusal(request: Request, error: CrucibleError) -> Response:
    """A sandbox that is gone is told as their proxy would."""
    name = named_sandbox(request)
    if is_gone(error) and not _runs(request, name):
        return not_running(name)
    return rpc_refusal(error)


def _runs(request: Request, name: str) -> bool:
    try:
        domain_of(request).manager.running(name)
    except CrucibleError:
        return False
    return True
