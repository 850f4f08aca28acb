"""The multiplexed channel into one machine: meeting the agent, opening streams, ending at once."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from crucible.errors import GuestGone, GuestSilent, ProtocolBroken, Refused, SandboxError
from crucible.sandbox.guest.exchange import Exchange
from crucible.sandbox.guest.link import Link
from crucible.sandbox.guest.patience import Patience
from crucible.sandbox.guest.stream import AnswerT, Stream
from crucible.wire.decoder import Decoder
from crucible.wire.frames import MAX_STREAM, NONCE_BYTES, Frame, Kind, encode
from crucible.wire.generation import Hello, Sync
from crucible.wire.notes import Attach, encode_attach, encode_window
from crucible.wire.requests import Exec, Request, encode_request

MAX_STREAMS: Final = 768
SMALL_S: Final = 30.0
FLUSH_AFTER_S: Final = 0.25
FLUSH_AGAIN_S: Final = 1.0
FLUSH_FRAMES: Final = 2_048
WHY_GONE_S: Final = 20.0

WhyGone = Callable[[], Awaitable[SandboxError]]


class GuestChannel:
    """Made by `connect`. Once it has ended `failure` says why, and everyone who waited is told."""

    def __init__(self, name: str, nonce: bytes, why_gone: WhyGone | None) -> None:
        self.name = name
        self.failure: SandboxError | None = None
        self.exchange: Exchange | None = None
        self.patience = Patience()
        self.hello: Hello
        self._nonce = nonce
        self._why_gone = why_gone
        self._streams: dict[int, Stream] = {}
        self._grants: dict[tuple[int, int], int] = {}
        self._attached: set[int] = set()
        self._first = self._next = 0
        self._met: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[SandboxError] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[None] | None = None
        self._link = Link(
            Decoder(nonce=nonce),
            on_frame=self._receive,
            on_writable=self._send_grants,
            on_lost=self._lost,
        )

    @classmethod
    async def connect(
        cls,
        sock: socket.socket,
        *,
        deadline_s: float,
        name: str,
        why_gone: WhyGone | None = None,
        flush_after_s: float = FLUSH_AFTER_S,
        exchange: Exchange | None = None,
    ) -> GuestChannel:
        """Meets the agent behind a connected socket, which now belongs to the channel.

        `why_gone` is asked once, when the socket ends by itself, and may wait for the machine's own
        end. `flush_after_s` is how long a first SYNC may go unanswered before more are sent.
        """
        channel = cls(name, os.urandom(NONCE_BYTES), why_gone)
        channel.exchange = exchange
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: channel._link, sock=sock)
        try:
            await channel._meet(deadline_s, flush_after_s)
        except BaseException:
            channel._fail(GuestGone(name, "it was never met"))
            channel._link.abort()
            raise
        return channel

    @property
    def unsent_bytes(self) -> int:
        """What waits here because the guest does not read."""
        return self._link.unsent_bytes

    async def open(self, request: Request) -> Stream:
        payload = encode_request(request)
        await self.writable_or_raise()
        if self._next > MAX_STREAM:
            raise Refused(f"Sandbox {self.name!r} has used up its {MAX_STREAM} streams")
        number = self._next
        self._next += 1
        return self._begin(Stream(self, number, request), encode(Kind.OPEN, number, payload))

    async def ask(
        self, request: Request, answer: type[AnswerT], seconds: float = SMALL_S
    ) -> AnswerT:
        """A request that is one frame each way."""
        with await self.open(request) as stream:
            return await stream.answer(answer, seconds)

    async def attach(self, number: int, output: int, errors: int) -> Stream:
        """Takes up an exec stream of a host before this one, once."""
        await self.writable_or_raise()
        if not 0 < number < self._first or number in self._attached:
            raise Refused(f"Stream {number} of sandbox {self.name!r} cannot be taken up")
        stream = Stream(self, number, _UNKNOWN_EXEC, is_attached=True)
        payload = encode_attach(Attach(output, errors))
        self._begin(stream, encode(Kind.ATTACH, number, payload))
        self._attached.add(number)
        return stream

    async def writable_or_raise(self) -> None:
        """Room for a request, or the error that says why there will be none."""
        if self._asking is not None:
            await asyncio.shield(self._asking)
        try:
            async with self.patience.within(SMALL_S):
                await self._link.writable()
        except TimeoutError:
            raise GuestSilent(self.name, SMALL_S) from None
        if self._asking is not None:
            await asyncio.shield(self._asking)
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    async def watch(self) -> SandboxError:
        """Waits for the channel's end and returns why it ended."""
        return await asyncio.shield(self._over)

    async def close(self, why: SandboxError | None = None) -> None:
        """Whoever still waits for something is told `why`."""
        self._fail(why or GuestGone(self.name, "the connection to it was closed here"))
        self._link.close()
        try:
            async with asyncio.timeout(1):
                await self._link.lost()
        except TimeoutError:
            self._link.abort()

    async def writable(self) -> None:
        await self._link.writable()

    def send(self, frame: bytes) -> None:
        self._link.send(frame)

    def grant(self, stream: int, channel: int, limit: int) -> None:
        """Sends a window, or keeps the newest one while the guest does not read what it is sent."""
        if self._link.is_full:
            self._grants[stream, channel] = limit
        else:
            self.send(encode(Kind.WINDOW, stream, encode_window(limit), channel))

    def drop(self, stream: int) -> None:
        if self.exchange is not None:
            self.exchange.drop(stream)
        self._streams.pop(stream, None)
        for key in [key for key in self._grants if key[0] == stream]:
            del self._grants[key]

    def _begin(self, stream: Stream, frame: bytes) -> Stream:
        if len(self._streams) >= MAX_STREAMS:
            raise Refused(f"Sandbox {self.name!r} has {MAX_STREAMS} requests under way, the most")
        self._streams[stream.number] = stream
        self.send(frame)
        return stream

    async def _meet(self, deadline_s: float, flush_after_s: float) -> None:
        sync = Sync(self._nonce).frame()
        self.send(sync)
        pause_s = flush_after_s
        try:
            async with asyncio.timeout(deadline_s):
                while not (await asyncio.wait({self._met}, timeout=pause_s))[0]:
                    if not self._link.is_full:
                        self.send(sync * FLUSH_FRAMES)
                    pause_s = FLUSH_AGAIN_S
        except TimeoutError:
            raise GuestSilent(self.name, deadline_s) from None
        self.hello = self._met.result()

    def _receive(self, frame: Frame) -> None:
        if frame.kind is Kind.HELLO:
            self._receive_hello(frame)
            return
        stream = self._streams.get(frame.stream)
        if stream is not None:
            stream.receive(frame)
        elif not self._was_open(frame.stream):
            raise ProtocolBroken(
                f"a {frame.kind.name} frame names stream {frame.stream}, never opened"
            )

    def _receive_hello(self, frame: Frame) -> None:
        hello = Hello.decode(frame.payload)
        if hello.nonce != self._nonce:
            raise ProtocolBroken("a HELLO answers a SYNC that was never sent")
        if not self._met.done():
            self._first = self._next = hello.next_stream
            self._met.set_result(hello)

    def _was_open(self, stream: int) -> bool:
        """Whether frames may still be under way on a stream that was dropped here."""
        return self._first <= stream < self._next or stream in self._attached

    def _send_grants(self) -> None:
        while self._grants and not self._link.is_full:
            (stream, channel), limit = self._grants.popitem()
            self.send(encode(Kind.WINDOW, stream, encode_window(limit), channel))

    def _lost(self, broken: ProtocolBroken | None) -> None:
        if broken is not None:
            self._fail(broken)
        elif self._why_gone is None or self.failure is not None:
            self._fail(GuestGone(self.name, "its channel was closed"))
        else:
            self._asking = asyncio.get_running_loop().create_task(self._ask(self._why_gone))

    async def _ask(self, why_gone: WhyGone) -> None:
        failure: SandboxError = GuestGone(self.name, "its channel was closed")
        try:
            async with asyncio.timeout(WHY_GONE_S):
                failure = await why_gone()
        except TimeoutError:
            return
        finally:
            self._fail(failure)

    def _fail(self, failure: SandboxError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        self._over.set_result(failure)
        if self.exchange is not None:
            self.exchange.close()
        if not self._met.done():
            self._met.set_exception(failure)
            self._met.exception()
        for stream in tuple(self._streams.values()):
            stream.wake()
        self._streams.clear()
        self._grants.clear()


_UNKNOWN_EXEC: Final = Exec((), (), b"", "", 0, 0, 0, 0, ())
