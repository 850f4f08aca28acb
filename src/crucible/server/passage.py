"""One request's bytes in both directions: bounded in size and patience, cut off when its caller is let in no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from crucible.errors import CrucibleError, RequestTooLarge, RequestTooSlow
from crucible.server.callers import Caller

MOST_BODY_BYTES = 4 << 20
READ_S = 30.0
WRITE_S = 60.0
# For who does not read what is said at the end.
LAST_S = 5.0
# As 401 is in HTTP; numbers from 4000 on are for applications.
CLOSED_UNKNOWN = 4401


class Passage:
    """A route that takes more than `MOST_BODY_BYTES` says so in `request.state.most_bytes` before it reads.

    Once it is `ended` nothing more goes through: who reads finds that the caller has gone, and what was asked for is
    given up or goes on as it would then. An answer that had not begun is a refusal.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        refuse: Callable[[CrucibleError, str], Response],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._request_id = request_id
        self._refuse = refuse
        self._received = 0
        self._has_whole_body = False
        self._is_closed = False
        self._waits: set[asyncio.Timeout] = set()
        self._over = asyncio.Event()
        self._refusing: asyncio.Task[None] | None = None
        self.has_begun = False
        self.status = 0
        self.ended: CrucibleError | None = None
        scope["state"]["passage"] = self

    @property
    def caller(self) -> Caller:
        caller: Caller = self._scope["state"]["caller"]
        return caller

    async def over(self) -> None:
        """Comes back when it has ended, and else never."""
        await self._over.wait()

    def end(self, error: CrucibleError) -> None:
        """Cuts it off, at once. `error` is what the caller is told, where there is a way to."""
        self.ended = error
        self._over.set()
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)
        if self._is_http and not self.has_begun:
            self.has_begun = True
            self._refusing = asyncio.create_task(self._tell_refusal(error))

    async def say_last(self, data: bytes) -> None:
        """The end of an answer that had begun, in the words of whoever gave it."""
        if self._refusing is None and not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(OSError, TimeoutError):
                await self._pass_on(
                    {"type": "http.response.body", "body": data, "more_body": False}, LAST_S
                )

    async def leave(self) -> None:
        """When whoever answered has come back."""
        if self._refusing is not None:
            await self._refusing
        elif self.ended is not None and not self._is_http and not self._is_closed:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                await self._close()

    async def receive(self) -> Message:
        if self._over.is_set():
            return self._gone()
        patience_s = READ_S if self._is_http and not self._has_whole_body else None
        if patience_s is not None:
            self._check_size(self._announced())
        wait = asyncio.timeout(patience_s)
        self._waits.add(wait)
        try:
            async with wait:
                message = await self._receive()
        except TimeoutError:
            if self._over.is_set():
                return self._gone()
            raise RequestTooSlow(READ_S) from None
        finally:
            self._waits.discard(wait)
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._has_whole_body = not message.get("more_body", False)
            self._check_size(self._received)
        return message

    async def send(self, message: Message) -> None:
        if self._over.is_set():
            await self._say_no_more(message)
            return
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self._complete_head(message)
        self._is_closed |= message["type"] == "websocket.close"
        self.has_begun = True
        try:
            await self._pass_on(message, WRITE_S)
        except TimeoutError:
            if not self._over.is_set():
                raise

    async def _say_no_more(self, message: Message) -> None:
        if self._is_http or self._is_closed:
            return
        if message["type"] != "websocket.close":
            raise ConnectionResetError("The caller is let in no more")
        await self._close()

    async def _close(self) -> None:
        self._is_closed = True
        reason = "" if self.ended is None else self.ended.code
        close: Message = {"type": "websocket.close", "code": CLOSED_UNKNOWN, "reason": reason}
        await self._pass_on(close, LAST_S)

    async def _tell_refusal(self, error: CrucibleError) -> None:
        response = self._refuse(error, self._request_id)

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete_head(message)
            await self._pass_on(message, LAST_S)

        with contextlib.suppress(OSError, TimeoutError):
            await response(self._scope, self._receive, send)

    async def _pass_on(self, message: Message, patience_s: float) -> None:
        wait = asyncio.timeout(patience_s)
        self._waits.add(wait)
        try:
            async with wait:
                await self._send(message)
        finally:
            self._waits.discard(wait)

    def _complete_head(self, message: Message) -> None:
        self.status = self._scope["state"]["status"] = message["status"]
        headers = MutableHeaders(scope=message)
        headers["X-Request-ID"] = self._request_id
        headers["X-Content-Type-Options"] = "nosniff"
        headers.setdefault("Cache-Control", "no-store")

    def _gone(self) -> Message:
        if not self._is_http:
            return {"type": "websocket.disconnect", "code": CLOSED_UNKNOWN}
        if not self._has_whole_body and self.ended is not None:
            # Half a body must not be taken for a whole one.
            raise self.ended
        return {"type": "http.disconnect"}

    @property
    def _is_http(self) -> bool:
        return bool(self._scope["type"] == "http")

    def _check_size(self, size: int) -> None:
        most: int = self._scope["state"].get("most_bytes", MOST_BODY_BYTES)
        if size > most:
            raise RequestTooLarge(most)

    def _announced(self) -> int:
        for name, value in self._scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else 0
        return 0


def passage_of(connection: HTTPConnection) -> Passage:
    passage: Passage = connection.state.passage
    return passage
