"""The other end of the channel, played by a test: it can say what a real agent never says."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from crucible.errors import GuestRefused
from crucible.sandbox.guest.channel import GuestChannel, WhyGone
from crucible.sandbox.guest.session import GuestSession
from crucible.wire.answers import Answer, Ended, Fail, encode_answer, encode_fail
from crucible.wire.decoder import Decoder
from crucible.wire.frames import WINDOW_BYTES, Frame, Kind, encode
from crucible.wire.generation import GENERATION, Hello, Sync
from crucible.wire.notes import Note, Started, decode_window, encode_note, encode_window
from crucible.wire.requests import Request, Verb, decode_request, verb_of

OUTPUT, ERRORS = 1, 2
FINE = Ended(0, 0, 0, 0, 0, 0)


class ScriptedGuest:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = Decoder()
        self._frames: deque[Frame] = deque()
        self.verbs: dict[int, Verb] = {}

    async def receive(self) -> Frame:
        """The next frame of the host; EOFError when it has closed."""
        while not self._frames:
            data = await self._reader.read(1 << 18)
            if not data:
                raise EOFError
            self._frames.extend(self._decoder.feed(data))
        return self._frames.popleft()

    async def expect(self, kind: Kind) -> Frame:
        frame = await self.receive()
        assert frame.kind is kind, frame
        return frame

    async def request(self) -> tuple[int, Request]:
        frame = await self.expect(Kind.OPEN)
        request = decode_request(frame.payload)
        self.verbs[frame.stream] = verb_of(request)
        return frame.stream, request

    async def gone(self) -> list[Frame]:
        """Returns when the host has closed, with all that it still sent."""
        frames: list[Frame] = []
        try:
            while True:
                frames.append(await self.receive())
        except (EOFError, ConnectionError):
            return frames

    async def input(self, stream: int) -> bytes:
        """All that the host sends on the input channel, granting room like an honest reader."""
        taken, granted = bytearray(), WINDOW_BYTES
        while (frame := await self.receive()).kind is not Kind.END:
            assert frame.kind is Kind.DATA, frame
            assert (frame.stream, frame.channel) == (stream, 0)
            taken += frame.payload
            assert len(taken) <= granted
            if len(taken) + WINDOW_BYTES - granted >= WINDOW_BYTES // 4:
                granted = len(taken) + WINDOW_BYTES
                self.send(Kind.WINDOW, stream, encode_window(granted))
        return bytes(taken)

    async def output(self, stream: int, size: int, channel: int = OUTPUT) -> None:
        """Sends `size` bytes within the windows that the host grants for this stream."""
        sent, limit, block = 0, WINDOW_BYTES, bytes(65536)
        while sent < size:
            while sent < limit and sent < size:
                count = min(len(block), limit - sent, size - sent)
                self.send(Kind.DATA, stream, block[:count], channel)
                sent += count
            await self.writer.drain()
            if sent < size:
                frame = await self.expect(Kind.WINDOW)
                if (frame.stream, frame.channel) == (stream, channel):
                    limit = decode_window(frame.payload).limit

    def send(self, kind: Kind, stream: int, payload: bytes = b"", channel: int = 0) -> None:
        self.writer.write(encode(kind, stream, payload, channel))

    def note(self, stream: int, note: Note) -> None:
        self.send(Kind.NOTE, stream, encode_note(note))

    def answer(self, stream: int, answer: Answer) -> None:
        self.send(Kind.RESULT, stream, encode_answer(self.verbs[stream], answer))

    def fail(self, stream: int, code: str, message: str = "") -> None:
        self.send(Kind.FAIL, stream, encode_fail(Fail(code, message)))

    async def started(self, pid: int = 7) -> int:
        """Takes the next request, which must be an exec, and says it runs."""
        stream, _ = await self.request()
        assert self.verbs[stream] is Verb.EXEC
        self.note(stream, Started(pid))
        return stream

    def ended(self, stream: int, ended: Ended = FINE) -> None:
        self.send(Kind.END, stream, channel=OUTPUT)
        self.send(Kind.END, stream, channel=ERRORS)
        self.send(Kind.RESULT, stream, encode_answer(Verb.EXEC, ended))

    async def greet(self, *, next_stream: int = 1, state: int = 1) -> bytes:
        sync = Sync.decode((await self.expect(Kind.SYNC)).payload)
        self.hello(sync.nonce, next_stream=next_stream, state=state)
        return sync.nonce

    def hello(self, nonce: bytes, *, next_stream: int = 1, state: int = 1) -> None:
        hello = Hello(nonce, GENERATION, next_stream, state, "scripted")
        self.send(Kind.HELLO, 0, hello.encode())


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[ScriptedGuest, socket.socket]]:
    """A guest, and the socket that a host connects to it with."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    try:
        yield ScriptedGuest(reader, writer), ours
    finally:
        writer.transport.abort()
        ours.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def meeting(
    *, next_stream: int = 1, state: int = 1, why_gone: WhyGone | None = None
) -> AsyncIterator[tuple[ScriptedGuest, GuestSession]]:
    """A guest and a session that have met. No task of the session may be left when it is over."""
    async with ends() as (guest, sock):
        greeting = asyncio.create_task(guest.greet(next_stream=next_stream, state=state))
        channel = await GuestChannel.connect(sock, deadline_s=120, name="box", why_gone=why_gone)
        await greeting
        session = GuestSession(channel)
        try:
            yield guest, session
        finally:
            await session.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


@contextmanager
def skipping() -> Iterator[Callable[[float], Coroutine[Any, Any, None]]]:
    """Gives what lets time pass for the running loop that nobody has to wait for: all that is due by then happens."""
    loop = asyncio.get_running_loop()
    true_time = loop.time
    ahead = 0.0

    async def skip(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds
        for _ in range(20):
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: true_time() + ahead)
        yield skip


Call = Callable[[GuestSession], Coroutine[Any, Any, Any]]


def played(
    call: Call,
    guest_part: Callable[[ScriptedGuest], Coroutine[Any, Any, Any]],
) -> Any:
    """What a call on the session comes to when the guest plays its part."""

    async def scene() -> Any:
        async with meeting() as (guest, session):
            calling = asyncio.create_task(call(session))
            await guest_part(guest)
            return await calling

    return asyncio.run(scene())


def answered(call: Call, wanted: Request, answer: Answer) -> Any:
    async def part(guest: ScriptedGuest) -> None:
        stream, request = await guest.request()
        assert request == wanted
        guest.answer(stream, answer)

    return played(call, part)


def failed(call: Call, code: str, message: str = "") -> GuestRefused:
    async def part(guest: ScriptedGuest) -> None:
        stream, _ = await guest.request()
        guest.fail(stream, code, message)

    with pytest.raises(GuestRefused) as caught:
        played(call, part)
    assert caught.value.guest_code == code
    return caught.value


async def collected(source: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in source]
