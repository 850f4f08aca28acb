"""Ports at which programs of a sandbox's user listen: requests are passed on, and what is answered comes back.

One connection to the guest for each request. Both sides' words are parsed and said anew; neither is trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import httptools
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from crucible.errors import BadRequest, CrucibleError, GuestRefused
from crucible.sandbox.holding import Held
from crucible.sandbox.session import ByteStream
from crucible.server.wires.e2b.access import TOKEN_HEADERS, named_sandbox
from crucible.server.wires.e2b.answers import is_gone, not_running, refuse
from crucible.server.wires.e2b.inside import held_for
from crucible.server.wires.e2b.names import called_place
from crucible.server.wires.e2b.sockets import carry

MOST_BODY_BYTES = 4 << 30
MOST_HEAD_BYTES = 64 << 10
MOST_FIELDS = 200
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_OF_ONE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
     b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
)  # fmt: skip
# Ours, and nothing that a program in the sandbox should know.
_OURS = frozenset(name.encode() for name in TOKEN_HEADERS)

Fields = list[tuple[bytes, bytes]]


class BadAnswer(Exception):
    """What the program in the sandbox said is no answer."""


async def forward(request: Request) -> Response:
    request.state.most_bytes = MOST_BODY_BYTES
    try:
        held = held_for(request)
        stream = await _dialled(held, request)
    except CrucibleError as error:
        return _unreached(request, error)
    return _Forwarded(request, held, stream)


async def forward_socket(socket: WebSocket) -> None:
    try:
        held = held_for(socket)
        stream = await _dialled(held, socket)
    except CrucibleError as error:
        await socket.send_denial_response(_unreached(socket, error))
        return
    try:
        with held.used():
            await carry(socket, stream, passed_on(socket.scope["headers"]))
    finally:
        await stream.close()


def passed_on(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    """All but what is for one connection alone, and what opens the sandbox."""
    given = [(name.lower(), value) for name, value in fields]
    named = {
        word.strip().lower()
        for name, value in given
        if name == b"connection"
        for word in value.split(b",")
    }
    left_out = _OF_ONE_CONNECTION | _OURS | (named - {b"host", b"content-length"})
    return [(name, value) for name, value in given if name not in left_out]


async def _dialled(held: Held, connection: HTTPConnection) -> ByteStream:
    place = called_place(connection)
    if place is None:
        raise BadRequest("The request names no port")
    return await held.machine.dial(place.port)


def _unreached(connection: HTTPConnection, error: CrucibleError) -> Response:
    """In the words of E2B's own proxy."""
    name = named_sandbox(connection)
    if is_gone(error):
        return not_running(name)
    if not isinstance(error, GuestRefused):
        return refuse(error, connection.state.request_id)
    place = called_place(connection)
    port = place.port if place is not None else 0
    message = "The sandbox is running but port is not open"
    return JSONResponse({"sandboxId": name, "message": message, "port": port, "code": 502}, 502)


class _Forwarded(Response):
    """Whoever leaves before the end takes the connection to the guest along."""

    def __init__(self, request: Request, held: Held, stream: ByteStream) -> None:
        super().__init__()
        self._request = request
        self._held = held
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asking = asyncio.ensure_future(self._ask())
        answering = asyncio.ensure_future(self._answer(scope, receive, send))
        try:
            with self._held.used():
                await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            elif asking.exception() is not None:
                asking.result()
        finally:
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
            await self._stream.close()

    async def _ask(self) -> None:
        """Returns when the caller has left."""
        request = self._request
        # A program may answer, and hang up, before it has heard all.
        with contextlib.suppress(OSError, GuestRefused):
            await self._stream.write(head_of(request))
            is_chunked = "content-length" not in request.headers
            async for data in _body(request):
                size = b"%x\r\n" % len(data)
                await self._stream.write(size + data + b"\r\n" if is_chunked else data)
            if is_chunked and _has_body(request):
                await self._stream.write(b"0\r\n\r\n")
        while (await request.receive())["type"] != "http.disconnect":
            pass

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Answer(is_bodyless=self._request.method == "HEAD")
        has_begun = False
        try:
            while not answer.is_over:
                answer.feed(await self._stream.read())
                if answer.status and not has_begun:
                    has_begun = True
                    await send(
                        {
                            "type": "http.response.start",
                            "status": answer.status,
                            "headers": passed_on(answer.fields),
                        }
                    )
                if body := answer.take():
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        except (BadAnswer, OSError, GuestRefused) as error:
            if has_begun:
                raise ConnectionResetError("The sandbox's answer was cut short") from error
            told = {"message": f"The sandbox gave no answer: {error}"[:200], "code": 502}
            await JSONResponse(told, 502)(scope, receive, send)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def head_of(request: Request) -> bytes:
    """The request's line and fields, as a program in the sandbox hears them."""
    target = request.scope.get("raw_path") or request.scope["path"].encode()
    if request.scope["query_string"]:
        target += b"?" + request.scope["query_string"]
    if any(byte <= 0x20 or byte == 0x7F for byte in target):
        raise BadRequest("The address has characters that no address has")
    fields = passed_on(request.scope["headers"])
    if _has_body(request) and "content-length" not in request.headers:
        fields.append((b"transfer-encoding", b"chunked"))
    fields.append((b"connection", b"close"))
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), target)]
    lines += [name + b": " + value for name, value in fields]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _has_body(request: Request) -> bool:
    return "content-length" in request.headers or "transfer-encoding" in request.headers


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Without what `Request.stream` keeps for itself: whether the caller leaves is asked afterwards."""
    while _has_body(request):
        message = await request.receive()
        if message["type"] != "http.request":
            raise ConnectionResetError("The caller has left")
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


class Answer:
    """An answer as far as it was heard: fed with bytes of the guest's, b"" for their end. Raises BadAnswer."""

    def __init__(self, *, is_bodyless: bool) -> None:
        self.status = 0
        self.fields: Fields = []
        self.is_over = False
        self._is_bodyless = is_bodyless
        self._bodyless_bytes = 0
        self._field_bytes = 0
        self._has_length = False
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        if not data:
            self._end()
            return
        had = len(self._body)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_over:
                raise BadAnswer("it is not HTTP") from error
        # The parser keeps a field until it is whole, and one may stand behind the body as well.
        self._bodyless_bytes = 0 if len(self._body) > had else self._bodyless_bytes + len(data)
        if not self.is_over and self._bodyless_bytes > MOST_HEAD_BYTES:
            raise BadAnswer("its head is too long")

    def take(self) -> bytes:
        body = bytes(self._body)
        self._body.clear()
        return body

    def _end(self) -> None:
        if not self.status or self._has_length:
            raise BadAnswer("it was cut short")
        self.is_over = True

    # What the parser calls.

    def on_message_begin(self) -> None:
        if not self.is_over:
            self.fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_over:
            return
        if len(self.fields) >= MOST_FIELDS:
            raise BadAnswer("it has too many fields")
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > MOST_HEAD_BYTES:
            raise BadAnswer("its head is too long")
        if any(byte in value for byte in b"\r\n\0"):
            raise BadAnswer("a field of it is no field")
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.is_over or 100 <= status < 200:
            return
        if not 200 <= status < 600:
            raise BadAnswer("its status is none")
        self.status = status
        names = {name.lower() for name, _ in self.fields}
        self._has_length = bool(names & {b"content-length", b"transfer-encoding"})
        self.is_over = self._is_bodyless

    def on_body(self, data: bytes) -> None:
        if not self.is_over:
            self._body += data

    def on_message_complete(self) -> None:
        self.is_over = self.is_over or bool(self.status)


routes: list[BaseRoute] = [
    Route("/{path:path}", forward, methods=_METHODS),
    WebSocketRoute("/{path:path}", forward_socket),
]
