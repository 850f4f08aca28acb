"""A connection to a model provider under a budget: one request after the other, each read whole, counted, then sent.

It is HTTP/1.1 on both sides. A program that would rather have HTTP/2 is not offered it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from crucible.network.connection import HEAD_S, Connection
from crucible.network.guard import Guard, Leaks
from crucible.network.http1 import Field, Request, parse_request, split_absolute
from crucible.network.metering import Admission, Meter, NotMetered, Refusal, Usage
from crucible.network.metering_refusals import refusal_answer
from crucible.network.metering_requests import MAX_BODY, Asked, read_request, route_of
from crucible.network.metering_stream import CHUNKED, Answer, Cut, Wire
from crucible.network.metering_usage import UsageReader, reader_for
from crucible.network.outlet import ByteStream
from crucible.network.policy import Decision
from crucible.network.providers import Provider
from crucible.network.violation import Malformed, Violation

# Of all connections of a sandbox together: requests are held until they are counted.
MOST_HELD: Final = 2 * MAX_BODY
BODY_S: Final = 300.0

# They are about one connection of two, or say how a body is written that is written anew.
_HOP_BY_HOP: Final = (
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"trailer",
    b"upgrade", b"http2-settings", b"expect", b"transfer-encoding", b"content-length",
    b"accept-encoding", b"x-http-method-override", b"x-http-method", b"x-method-override",
)  # fmt: skip
_NOT_PASSED_BACK: Final = (b"connection", b"keep-alive", b"transfer-encoding", b"content-length",
                           b"trailer", b"upgrade", b"alt-svc")  # fmt: skip


class Room:
    """Memory for requests that are not yet sent, shared by the connections of a sandbox."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._left = most

    def take(self, size: int) -> None:
        if size > self._left:
            raise NotMetered("too-large", "too many large requests are under way at once")
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """What a connection needs to be counted. `prepare` checks a head and puts secrets in."""

    provider: Provider
    meter: Meter
    room: Room
    prepare: Callable[[Request], Request]
    guard: Guard | None
    leaks: Leaks
    tell: Callable[[Connection], None]


async def serve_metered(
    connection: Connection, guest: ByteStream, server: ByteStream, metered: Metered
) -> None:
    """Until one side ends. Ends neither stream if it raises, which is OSError when a side was reset."""
    exchange = _Exchange(connection, guest, server, metered)
    try:
        await exchange.serve()
    finally:
        exchange.close()
    await server.close()
    await guest.close()


class _Exchange:
    def __init__(
        self, connection: Connection, guest: ByteStream, server: ByteStream, metered: Metered
    ) -> None:
        self._connection = connection
        self._guest_stream = guest
        self._server_stream = server
        self._guest = Wire(guest)
        self._server = Wire(server)
        self._by = metered
        self._has_begun_answer = False
        self._calls = 0
        connection.protocol = "http"

    def close(self) -> None:
        self._guest.close()
        self._server.close()
        if self._calls and self._connection.is_allowed:
            self._connection.reason += f", {self._calls} calls counted"

    async def serve(self) -> None:
        """Raises OSError when an answer that was begun cannot be brought to its end."""
        while await self._wait_for_request():
            self._has_begun_answer = False
            try:
                if not await self._one():
                    return
            except NotMetered as error:
                await self._refuse(error.refusal)
                return
            except Malformed as error:
                await self._refuse(Refusal(kind="invalid", reason=str(error)), "names")
                return
            except Violation as error:
                await self._refuse(Refusal(kind="unmetered", reason=error.reason), error.rule)
                return

    async def _wait_for_request(self) -> bool:
        """False when a side has ended. A server that goes between two requests must not cost the next one."""
        if self._guest.has_more():
            return True
        waiting = {
            asyncio.ensure_future(self._guest.fill()),
            asyncio.ensure_future(self._server.fill()),
        }
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for task in done:
            task.result()
        self._connection.active = time.monotonic()
        return self._guest.has_more() and not self._server.is_ended and not self._server.has_more()

    async def _one(self) -> bool:
        """One request and its answer. Whether another may follow."""
        async with asyncio.timeout(HEAD_S):
            head = await self._guest.head()
        if head is None:
            return False
        request = parse_request(head)
        if request.minor == 0:
            raise NotMetered("invalid", "a budget needs HTTP/1.1")
        held = 0
        sending = _Sending()
        try:
            body = await self._body(request)
            held = len(body)
            asked = self._judged(request, body)
            prepared = self._prepared(request, asked)
            if asked.call is not None:
                answer = await self._by.meter.admit(asked.call)
                if isinstance(answer, Refusal):
                    await self._refuse(answer)
                    return False
                sending.admission = answer
                self._calls += 1
            sending.has_begun = True
            await self._send(prepared.encoded() + asked.body)
            self._by.room.give_back(held)
            held = 0
            return await self._pass_back(request, asked, sending)
        finally:
            self._by.room.give_back(held)
            await sending.settle(None if sending.has_begun else Usage())

    async def _body(self, request: Request) -> bytes:
        """Whole, and counted against the room."""
        lengths = request.values(b"content-length")
        length = CHUNKED if request.values(b"transfer-encoding") else int((lengths or [b"0"])[0])
        if length > MAX_BODY:
            raise NotMetered("too-large", f"a request is larger than {MAX_BODY >> 20} MiB")
        if request.values(b"content-encoding"):
            raise NotMetered("invalid", "a request under a budget must not be compressed")
        if request.values(b"expect"):
            await self._guest_stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for piece in self._guest.body(length):
                    if len(body) + len(piece) > MAX_BODY:
                        raise NotMetered(
                            "too-large", f"a request is larger than {MAX_BODY >> 20} MiB"
                        )
                    self._by.room.take(len(piece))
                    body += piece
        except BaseException:
            self._by.room.give_back(len(body))
            raise
        return bytes(body)

    def _judged(self, request: Request, body: bytes) -> Asked:
        """Raises NotMetered, and Violation for a placeholder that is not for this host."""
        if self._by.guard is not None:
            self._by.guard.body(body)
        method = request.method.decode("ascii")
        absolute = split_absolute(request.target)
        target = request.target if absolute is None else absolute[2]
        path = target.decode("ascii").partition("?")[0]
        route = route_of(self._by.provider, method, path)
        return read_request(self._by.provider, route, path, body)

    def _prepared(self, request: Request, asked: Asked) -> Request:
        kept = request.without(*_HOP_BY_HOP)
        own: tuple[Field, ...] = ((b"Accept-Encoding", b"identity"),)
        if asked.body or request.method == b"POST":
            own += ((b"Content-Length", b"%d" % len(asked.body)),)
        return self._by.prepare(replace(kept, fields=(*kept.fields, *own)))

    async def _send(self, data: bytes) -> None:
        await self._server_stream.write(data)
        self._connection.bytes_up += len(data)

    async def _pass_back(self, request: Request, asked: Asked, sending: _Sending) -> bool:
        answer = await self._answer()
        reader = _reader(asked, answer)
        is_rewritten = reader is not None and asked.adds_usage
        closes = answer.closes or _wants_end(request)
        self._has_begun_answer = True
        await self._give(_head(answer, closes=closes, is_rewritten=is_rewritten))
        is_chunked = answer.length < 0 or is_rewritten
        seen = 0
        async for piece in self._server.body(answer.length):
            seen += len(piece)
            self._by.leaks.down(piece)
            passed = piece if reader is None else reader.feed(piece)
            # Before the program has the end of it: its next call may need what this one did not.
            if seen == answer.length or (reader is not None and reader.is_complete):
                await sending.settle(_usage(reader, answer))
            if passed:
                await self._give(_chunk(passed) if is_chunked else passed)
        await sending.settle(_usage(reader, answer))
        if is_chunked:
            rest = b"" if reader is None else reader.rest()
            await self._give((_chunk(rest) if rest else b"") + b"0\r\n\r\n")
        return not closes

    async def _answer(self) -> Answer:
        try:
            return await self._server.answer()
        except (Malformed, Cut) as error:
            raise NotMetered("broken", str(error)) from None

    async def _give(self, data: bytes) -> None:
        await self._guest_stream.write(data)
        self._connection.active = time.monotonic()
        self._connection.bytes_down += len(data)

    async def _refuse(self, refusal: Refusal, rule: str = "budget") -> None:
        """Told before the program can see it: whoever waits for that program is to hear of it."""
        if refusal.kind == "broken":
            self._connection.fail(refusal.reason)
        else:
            self._connection.settle(Decision(allowed=False, rule=rule, reason=refusal.reason))
        self._by.tell(self._connection)
        if self._has_begun_answer:
            raise ConnectionAbortedError(refusal.reason)
        await self._give(refusal_answer(self._by.provider, refusal))


class _Sending:
    """Once a request is on its way, nobody knows what it costs until its answer says so."""

    def __init__(self) -> None:
        self.has_begun = False
        self.admission: Admission | None = None

    async def settle(self, usage: Usage | None) -> None:
        """Once, even if the connection is ended meanwhile."""
        admission, self.admission = self.admission, None
        if admission is not None:
            await asyncio.shield(asyncio.ensure_future(admission.settle(usage)))


def _usage(reader: UsageReader | None, answer: Answer) -> Usage | None:
    if reader is not None:
        return reader.usage()
    # No provider charges for an error.
    return Usage() if answer.status >= 400 else None


def _reader(asked: Asked, answer: Answer) -> UsageReader | None:
    """None for an answer that says nothing of usage, or hides it."""
    if asked.call is None or not 200 <= answer.status < 300:
        return None
    if any(value.lower() != b"identity" for value in answer.values(b"content-encoding")):
        return None
    kind = b"".join(answer.values(b"content-type")).lower()
    is_stream = kind.startswith(b"text/event-stream")
    return reader_for(asked.route, is_stream=is_stream, strips_usage=asked.adds_usage and is_stream)


def _head(answer: Answer, *, closes: bool, is_rewritten: bool) -> bytes:
    fields = [field for field in answer.fields if field[0].lower() not in _NOT_PASSED_BACK]
    if answer.length < 0 or is_rewritten:
        fields.append((b"Transfer-Encoding", b"chunked"))
    elif answer.status not in (204, 304):
        fields.append((b"Content-Length", b"%d" % answer.length))
    if closes:
        fields.append((b"Connection", b"close"))
    lines = [b"HTTP/1.1 " + answer.line[9:], *(b"%s: %s" % field for field in fields)]
    return b"\r\n".join([*lines, b"", b""])


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _wants_end(request: Request) -> bool:
    options = b",".join(request.values(b"connection")).lower().split(b",")
    return b"close" in (option.strip() for option in options)
