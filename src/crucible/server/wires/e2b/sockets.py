"""A WebSocket carried on to a program in a sandbox: two handshakes, and messages between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.client import ClientProtocol
from websockets.exceptions import ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI

from crucible.errors import GuestRefused
from crucible.sandbox.session import ByteStream
from crucible.server.passage import passage_of

MOST_MESSAGE_BYTES = 1 << 20
HANDSHAKE_S = 30.0
_NORMAL = 1000
_GOING_AWAY = 1001
_BROKEN = 1011
_UNSAYABLE = (1005, 1006, 1015)
_MADE_ANEW = (b"host", b"origin", b"content-length")


async def carry(
    socket: WebSocket, stream: ByteStream, fields: Iterable[tuple[bytes, bytes]]
) -> None:
    """Until one side closes. The caller is accepted once the program in the sandbox has accepted."""
    guest = _Guest(stream, socket.scope, list(fields))
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            subprotocol = await guest.shake_hands()
    except (ConnectionError, TimeoutError, GuestRefused) as error:
        told = {"message": f"The sandbox took no WebSocket: {error}"[:200], "code": 502}
        await socket.send_denial_response(JSONResponse(told, 502))
        return
    await socket.accept(subprotocol)
    inward = asyncio.ensure_future(_inward(socket.receive, guest))
    outward = asyncio.ensure_future(_outward(guest, socket.send))
    ending = asyncio.ensure_future(passage_of(socket).over())
    tasks = {inward, outward, ending}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _inward(receive: Receive, guest: _Guest) -> None:
    with contextlib.suppress(OSError, GuestRefused, ProtocolError):
        while (message := await receive())["type"] == "websocket.receive":
            text, data = message.get("text"), message.get("bytes")
            await guest.say(text if text is not None else data or b"")
        await guest.close(message.get("code") or _GOING_AWAY)


async def _outward(guest: _Guest, send: Send) -> None:
    code = _BROKEN
    with contextlib.suppress(ConnectionError, GuestRefused):
        while (message := await guest.hear()) is not None:
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
        code = guest.close_code
    await send({"type": "websocket.close", "code": code})


class _Guest:
    """The other end, in the sandbox. Raises ConnectionError for what it does wrong."""

    def __init__(self, stream: ByteStream, scope: Scope, fields: list[tuple[bytes, bytes]]) -> None:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("ascii", "replace")
        uri = WebSocketURI(False, "localhost", 80, path, scope["query_string"].decode("ascii"))
        given: dict[str, Any] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in fields
        }
        self._protocol = ClientProtocol(
            uri,
            origin=given.get("origin"),
            subprotocols=scope.get("subprotocols") or None,
            max_size=MOST_MESSAGE_BYTES,
        )
        self._host = given.get("host", "localhost")
        self._fields = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in fields
            if name not in _MADE_ANEW and not name.startswith(b"sec-websocket-")
        ]
        self._stream = stream
        self._events: list[Any] = []
        self._pieces: list[bytes] = []
        self._is_text = False

    @property
    def close_code(self) -> int:
        """As the other end closed; what means that no code was said cannot be said again."""
        close = self._protocol.close_rcvd
        if close is None:
            return _BROKEN
        return _NORMAL if close.code in _UNSAYABLE else int(close.code)

    async def shake_hands(self) -> str | None:
        request = self._protocol.connect()
        del request.headers["Host"]
        request.headers["Host"] = self._host
        for name, value in self._fields:
            request.headers[name] = value
        self._protocol.send_request(request)
        await self._flush()
        while not isinstance(event := await self._next(), Response):
            if event is None:
                raise ConnectionResetError("it hung up")
        if self._protocol.handshake_exc is not None or self._protocol.state is not State.OPEN:
            raise ConnectionResetError(f"it answered with status {event.status_code}")
        return self._protocol.subprotocol

    async def say(self, message: str | bytes) -> None:
        if isinstance(message, str):
            self._protocol.send_text(message.encode())
        else:
            self._protocol.send_binary(message)
        await self._flush()

    async def close(self, code: int) -> None:
        is_sayable = 1000 <= code < 5000 and code not in _UNSAYABLE
        self._protocol.send_close(code if is_sayable else _GOING_AWAY)
        await self._flush()

    async def hear(self) -> str | bytes | None:
        """The next whole message; None when the other end has closed."""
        while (event := await self._next()) is not None:
            if not isinstance(event, Frame):
                continue
            if event.opcode in (Opcode.TEXT, Opcode.BINARY):
                self._pieces = []
                self._is_text = event.opcode is Opcode.TEXT
            elif event.opcode is Opcode.CLOSE:
                return None
            elif event.opcode is not Opcode.CONT:
                continue
            self._pieces.append(bytes(event.data))
            if event.fin:
                return self._whole()
        return None

    def _whole(self) -> str | bytes:
        data = b"".join(self._pieces)
        self._pieces = []
        try:
            return data.decode() if self._is_text else data
        except UnicodeDecodeError:
            raise ConnectionResetError("it said text that is none") from None

    async def _next(self) -> Any:
        while not self._events:
            data = await self._stream.read()
            if not data:
                return None
            self._protocol.receive_data(data)
            await self._flush()
            self._events += self._protocol.events_received()
            if self._protocol.parser_exc is not None and not self._events:
                raise ConnectionResetError("it does not speak as a WebSocket does")
        return self._events.pop(0)

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._stream.write(data)
