"""A command in a sandbox elsewhere: its events are taken in as fast as its reader lets them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from crucible.backends.e2b import starting
from crucible.backends.e2b.promises import check_command, unsupported
from crucible.backends.e2b.sdk import translated
from crucible.errors import CrucibleError, GuestRefused, RemoteUnreachable
from crucible.sandbox.session import Channel, Chunk, Command, Exit

if TYPE_CHECKING:
    from crucible.backends.e2b.wire import Wire

WINDOW: Final = 1 << 20
INPUT_PIECE: Final = 64 << 10
BEGIN_S: Final = 60.0
BACKSTOP_S: Final = 10.0
_LONGEST_BEGINNING: Final = 64 << 10
_TIMED_OUT: Final = 124
_ENDED_BY: Final = re.compile(r"signal: ([a-z0-9 /]+?)(?: \(core dumped\))?\Z")
# As Go's runtime, in which the service's program inside is written, calls them.
_SIGNALS: Final = {
    "hangup": 1, "interrupt": 2, "quit": 3, "illegal instruction": 4, "trace/breakpoint trap": 5,
    "aborted": 6, "bus error": 7, "floating point exception": 8, "killed": 9,
    "user defined signal 1": 10, "segmentation fault": 11, "user defined signal 2": 12,
    "broken pipe": 13, "alarm clock": 14, "terminated": 15,
}  # fmt: skip


class E2BProcess:
    """A Process. `stream` is ours: the service knows the command by a tag with that number in it."""

    def __init__(self, wire: Wire, events: Any, *, stream: int, command: Command | None) -> None:
        self.stream = stream
        self.pid = 0
        self.input_offset = 0
        self._wire = wire
        self._events = events
        self._has_terminal = command is not None and command.has_terminal
        self._timeout_s = None if command is None else command.timeout_s
        self._began = time.monotonic()
        self._chunks: deque[Chunk] = deque()
        self._ends = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        self._held = 0
        self._changed = asyncio.Condition()
        self._exit: Exit | None = None
        self._failure: CrucibleError | None = None
        self._pumping: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, wire: Wire, command: Command, stream: int) -> E2BProcess:
        """Returns when the command itself runs, or raises what stood in its way."""
        check_command(command)
        beginning = starting.begin(command)
        events = wire.start(beginning.arguments, command, stream)
        process = cls(wire, events, stream=stream, command=command)
        try:
            async with asyncio.timeout(BEGIN_S):
                await process._begin(beginning.mark, command)
        except TimeoutError:
            await process.forget()
            raise RemoteUnreachable("The sandbox did not begin the command in time") from None
        except BaseException:
            with contextlib.suppress(CrucibleError):
                await process.forget()
            raise
        process._pumping = asyncio.create_task(process._pump())
        return process

    @classmethod
    async def attach(cls, wire: Wire, stream: int, ends: dict[Channel, int]) -> E2BProcess:
        """Goes on with what comes from now: the service keeps nothing of what was written before."""
        process = cls(wire, wire.connect(stream), stream=stream, command=None)
        process._ends = ends
        await process._read_start()
        process._pumping = asyncio.create_task(process._pump())
        return process

    async def read(self, *, grants: bool = True) -> Chunk | None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._chunks or self._is_over)
            if not self._chunks:
                if self._failure is not None:
                    raise self._failure
                return None
            chunk = self._chunks.popleft()
            if grants:
                self._held -= len(chunk.data)
                self._changed.notify_all()
            return chunk

    def grant(self, channel: Channel, count: int) -> None:
        self._held -= count
        self._wire.soon(self._notify())

    async def discard(self) -> None:
        while await self.read() is not None:
            pass

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), INPUT_PIECE):
            piece = data[start : start + INPUT_PIECE]
            if self._is_over or not await self._sent(piece):
                return
            self.input_offset += len(piece)

    async def safe_input(self, beyond: int) -> int:
        """What the service has taken it has for good."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.input_offset > beyond or self._is_over)
        return self.input_offset

    async def close_input(self) -> None:
        if not self._is_over:
            with _unless_over():
                await self._wire.close_input(self.stream)

    async def signal(self, number: int) -> None:
        if self._is_over:
            return
        with _unless_over():
            await self._wire.signal(self.stream, self.pid, number)

    async def resize(self, rows: int, columns: int) -> None:
        if not self._has_terminal:
            raise unsupported("can only resize a terminal that this program opened")
        with _unless_over():
            await self._wire.resize(self.stream, rows, columns)

    async def wait(self) -> Exit:
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over)
        if self._exit is None:
            raise self._failure or RemoteUnreachable("The command's end is not known")
        return self._exit

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(seconds):
            yield

    async def forget(self) -> None:
        """Ends it, if it has not ended, and everything it started in its group."""
        if self._exit is None and self._failure is None and self.pid:
            with contextlib.suppress(CrucibleError):
                await self._wire.signal(self.stream, self.pid, 9)
        await self.leave()
        self._wire.forgotten(self.stream)

    async def leave(self) -> None:
        """Stops listening. The command goes on."""
        if self._pumping is not None:
            self._pumping.cancel()
            await asyncio.gather(self._pumping, return_exceptions=True)
        with contextlib.suppress(Exception):
            await self._events.aclose()

    @property
    def is_done(self) -> bool:
        return self._is_over

    @property
    def _is_over(self) -> bool:
        return self._exit is not None or self._failure is not None

    async def _begin(self, mark: bytes, command: Command) -> None:
        """Reads until the shell has said whether it became the command; all that follows is the command's."""
        await self._read_start()
        seen = b""
        own = Channel.OUTPUT if command.has_terminal else Channel.ERRORS
        while True:
            kind, value = await self._next()
            if kind == "end":
                raise starting.refusal("", command)
            if kind != "data":
                continue
            channel, data = value
            if channel is not own:
                self._keep(channel, data)
                continue
            seen += data
            before, found, rest = seen.partition(mark)
            word, over, rest = rest.partition(b";")
            if found and over:
                if word != b"ok":
                    raise starting.refusal(word.decode(errors="replace"), command)
                self._keep(channel, before + rest)
                return
            if len(seen) > _LONGEST_BEGINNING:
                raise starting.refusal("", command)

    async def _read_start(self) -> None:
        while True:
            kind, value = await self._next()
            if kind == "start":
                self.pid = value
                return
            if kind == "end":
                raise RemoteUnreachable("The sandbox ended a command before it began")

    async def _pump(self) -> None:
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._held < WINDOW)
                kind, value = await self._next()
                async with self._changed:
                    if kind == "data":
                        self._keep(*value)
                    elif kind == "end":
                        self._exit = value
                        return
                    self._changed.notify_all()
        except CrucibleError as error:
            self._failure = error
        finally:
            await self._notify()

    def _keep(self, channel: Channel, data: bytes) -> None:
        if data:
            self._chunks.append(Chunk(channel=channel, offset=self._ends[channel], data=data))
            self._ends[channel] += len(data)
            self._held += len(data)

    async def _next(self) -> tuple[str, Any]:
        """The next thing that the service tells: `start` with the number, `data`, `end`, or something else."""
        with translated(self._wire.access, self._wire.name):
            try:
                async with asyncio.timeout(self._patience_s()):
                    event = await anext(self._events, None)
            except TimeoutError:
                return "end", await self._overdue()
            except Exception as error:
                if self._wire.is_deadline(error) and self._timeout_s is not None:
                    return "end", await self._overdue()
                raise
        if event is None:
            raise RemoteUnreachable("The provider hung up on a command")
        told = event.event.event if event.event is not None else None
        if told is None:
            return "", None
        if told.field == "start":
            return "start", told.value.pid
        if told.field == "data" and told.value.output is not None:
            output = told.value.output
            channel = Channel.ERRORS if output.field == "stderr" else Channel.OUTPUT
            return "data", (channel, bytes(output.value))
        if told.field == "end":
            return "end", self._ended(told.value)
        return "", None

    async def _overdue(self) -> Exit:
        """Its time is over. That it is ended is asked for again: the service promises it nowhere."""
        with contextlib.suppress(CrucibleError):
            await self._wire.signal(self.stream, self.pid, 9)
        return Exit(status=_TIMED_OUT, timed_out=True, wall_s=time.monotonic() - self._began)

    def _ended(self, end: Any) -> Exit:
        wall_s = time.monotonic() - self._began
        found = _ENDED_BY.search(end.status[:100])
        if found is None:
            return Exit(status=end.exit_code & 0xFF, wall_s=wall_s)
        word = found[1]
        number = int(word) if word.isdecimal() and len(word) < 3 else _SIGNALS.get(word, 9)
        return Exit(status=128 + number, signal=number, wall_s=wall_s)

    def _patience_s(self) -> float | None:
        if self._timeout_s is None:
            return None
        return max(0.0, self._began + self._timeout_s + BACKSTOP_S - time.monotonic())

    async def _sent(self, piece: bytes) -> bool:
        """Whether the command could still take it."""
        is_taken = False
        with _unless_over():
            await self._wire.send_input(self.stream, piece, is_terminal=self._has_terminal)
            is_taken = True
        await self._notify()
        return is_taken

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@contextmanager
def _unless_over() -> Iterator[None]:
    """A command that has ended takes nothing any more, and nobody minds."""
    try:
        yield
    except GuestRefused as refused:
        if refused.guest_code != "not-found":
            raise
