"""One command in a running sandbox: read by one task, kept in the sandbox's log, shown to any number of watchers.

Knows no client and no wire: every door follows commands through this.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crucible.errors import (
    CrucibleError,
    GuestSilent,
    Refused,
    SandboxError,
    TooManyOnlookers,
)
from crucible.sandbox.holding import Held
from crucible.sandbox.limits import Limit
from crucible.sandbox.output_log import StreamLog
from crucible.sandbox.session import Channel, Chunk, ExecInfo, Exit, Process
from crucible.sandbox.watching import HEARD, Onlooker, Starts, Watcher, beginnings
from crucible.values import replace

HANGUP_GRACE_S = 5.0
MOST_ONLOOKERS = 32
_SIGHUP = 1
_SIGKILL = 9

Ended = Callable[["Execution"], None]


class Execution:
    """A command under way, or one that ended. Without `kept` only those who watch from its start on see all of it.

    Its pace is that of its slowest watcher: what one has not taken stays with the guest, whose window bounds
    what lies here. Without watchers it goes at the log's pace. Who merely looks on never slows it: an onlooker that
    falls too far behind is told so, and can come back for what the log has. `facts` describe it, as the log has them;
    `ended_at` is when the guest told how it ended, on the clock of `time.perf_counter`.
    """

    def __init__(
        self,
        held: Held,
        source: Process | ExecInfo,
        *,
        kept: StreamLog | None,
        facts: dict[str, Any],
        ended: Ended,
        patience_s: float = 0.0,
    ) -> None:
        self.held = held
        self.kept = kept
        self.facts = facts
        self.stream = source.stream
        self.pid = source.pid
        self.input_taken = 0
        self.exit: Exit | None = None
        self.ended_at = 0.0
        self.failure: CrucibleError | None = None
        self.limit: Limit | None = None
        self.is_given_up = False
        self._source = source
        self._process: Process | None = None
        self._attaching = asyncio.Lock()
        self._attached = asyncio.Event()
        self._ended = ended
        self._done = asyncio.Event()
        self._watchers: list[Watcher] = []
        self._onlookers: list[Onlooker] = []
        self._unwatched = asyncio.Event()
        self._unwatched.set()
        # Of each channel: where what is read next begins, and up to where the guest need not keep it.
        self._ends = beginnings()
        self._granted = beginnings()
        self._output_left = held.record.spec.output_mib << 20
        self._has_output_limit = held.record.spec.output_mib > 0
        if not isinstance(source, ExecInfo):
            self._take_up(source, beginnings())
        self._following = asyncio.create_task(self._follow(patience_s))

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    @property
    def process(self) -> Process:
        """For who wants to signal it or feed it; raises Refused if it has not been taken up."""
        if self._process is None:
            raise Refused(f"Command {self.stream} has not been taken up yet")
        return self._process

    async def attach(self, starts: Starts | None = None) -> None:
        """Takes up a command that another process began, once: at `starts`, or where its log ends."""
        async with self._attaching:
            if self._process is None and isinstance(self._source, ExecInfo):
                at = starts or (self.kept.ends if self.kept is not None else beginnings())
                process = await self.held.machine.attach(
                    self._source, output_offset=at[Channel.OUTPUT], errors_offset=at[Channel.ERRORS]
                )
                self._take_up(process, at)

    def watch(self, starts: Starts | None = None) -> Watcher:
        """Follows it from these offsets on: first what the log has, then what comes."""
        starts = starts or beginnings()
        watcher = Watcher(self, starts, self._backlog(starts), self._ends)
        if not self.is_done:
            self._watchers.append(watcher)
            self._unwatched.clear()
        return watcher

    def look_on(self, starts: Starts | None = None) -> Onlooker:
        """The same for somebody whose pace is not the command's. Raises TooManyOnlookers."""
        if len(self._onlookers) >= MOST_ONLOOKERS:
            raise TooManyOnlookers(self.stream, MOST_ONLOOKERS)
        starts = starts or beginnings()
        onlooker = Onlooker(self, starts, self._backlog(starts), self._ends)
        if not self.is_done:
            self._onlookers.append(onlooker)
        return onlooker

    @contextmanager
    def watching(self, starts: Starts | None = None) -> Iterator[Watcher]:
        watcher = self.watch(starts)
        try:
            yield watcher
        finally:
            watcher.close()

    @contextmanager
    def looking_on(self, starts: Starts | None = None) -> Iterator[Watcher]:
        onlooker = self.look_on(starts)
        try:
            yield onlooker
        finally:
            onlooker.close()

    async def follow(self, starts: Starts | None = None) -> AsyncGenerator[Chunk, None]:
        """All its output from these offsets on, to its end. What was given counts as taken when more is asked for."""
        with self.watching(starts) as watcher:
            async for chunk in watcher.chunks():
                yield chunk

    async def write(self, data: bytes) -> None:
        """Input; waits while its window is full."""
        await self.process.write(data)
        self.input_taken += len(data)

    async def wait(self) -> Exit:
        """How it ended. Somebody who watches must read for this to come about."""
        await self._done.wait()
        if self.exit is None:
            raise self._why()
        return self.exit

    async def hang_up(self) -> None:
        """What a command gets whose client left: a hangup, some time, the end."""
        self.is_given_up = True
        with contextlib.suppress(CrucibleError):
            await self.attach()
        if self._process is not None:
            await hang_up(self._process, self._done.wait)
            await self._done.wait()

    async def forgotten(self) -> None:
        """Returns when it has ended, nobody watches it and the guest was told to forget it."""
        await asyncio.gather(self._following, return_exceptions=True)

    async def close(self) -> None:
        """Leaves the command as it is, for another process to take up."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        if not self.is_done:
            self.failure = SandboxError("The program that holds the sandbox is leaving")
            self._settle_done()

    def note(self, facts: dict[str, Any]) -> None:
        """Adds to what is known of it, here and in the log."""
        self.facts.update(facts)
        if self.kept is not None:
            self.kept.amend(facts)

    def leave(self, watcher: Watcher) -> None:
        """What a watcher that left did not take need not wait for it."""
        if isinstance(watcher, Onlooker):
            with contextlib.suppress(ValueError):
                self._onlookers.remove(watcher)
        elif watcher in self._watchers:
            self._watchers.remove(watcher)
            self.grant()
        if not self._watchers:
            self._unwatched.set()

    def grant(self) -> None:
        """Tells the guest what all watchers have taken."""
        if self._process is None:
            return
        for channel in HEARD:
            end = self._ends[channel]
            taken = min((one.taken[channel] for one in self._watchers), default=end)
            count = min(taken, end) - self._granted[channel]
            if count > 0:
                self._granted[channel] += count
                self._process.grant(channel, count)

    def _backlog(self, starts: Starts) -> list[Chunk]:
        # The log is only read for what it alone has: it may be long, and most watch from the start.
        is_behind = any(starts[channel] < end for channel, end in self._ends.items())
        return self.kept.since(starts) if self.kept is not None and is_behind else []

    def _take_up(self, process: Process, at: Starts) -> None:
        self._process = process
        self.input_taken = process.input_offset
        self._ends = dict(at)
        self._granted = dict(at)
        if self.kept is not None:
            self._output_left = max(0, self._output_left - sum(self.kept.ends.values()))
        self._attached.set()

    async def _follow(self, patience_s: float) -> None:
        with self.held.used():
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(patience_s):
                        await self._attached.wait()
                await self.attach()
                self.exit = await self._read_all()
                self.ended_at = time.perf_counter()
            except CrucibleError as error:
                self.failure = error
            except Exception as error:
                traceback.print_exc()
                self.failure = SandboxError(f"Crucible failed: {type(error).__name__}: {error}")
            self._ended(self)
            self._settle_done()
            await self._unwatched.wait()
            if self._process is not None:
                with contextlib.suppress(CrucibleError):
                    await self._process.forget()

    async def _read_all(self) -> Exit:
        is_cut = False
        while not is_cut and (chunk := await self._read()) is not None:
            is_cut = await self._show(chunk)
        return replace(await self.process.wait(), too_much_output=is_cut)

    async def _read(self) -> Chunk | None:
        while True:
            try:
                return await self.process.read(grants=False)
            except GuestSilent:
                # While a watcher holds it back there is nothing that could come.
                if self._granted == self._ends:
                    raise

    async def _show(self, chunk: Chunk) -> bool:
        """Keeps and shows what the limit on output still allows; gives whether that was passed."""
        admitted = replace(chunk, data=self._admit(chunk.data))
        if self.kept is not None:
            self.kept.keep(admitted)
        channel = chunk.channel
        # The guest's memory may begin later than where we asked it to.
        self._granted[channel] += max(0, chunk.offset - self._ends[channel])
        self._ends[channel] = chunk.offset + len(admitted.data)
        for watcher in (*self._watchers, *self._onlookers):
            watcher.offer(admitted)
        self.grant()
        over = len(chunk.data) - len(admitted.data)
        if over:
            self.process.grant(channel, over)
            await self.process.signal(_SIGKILL)
            await self.process.discard()
        return over > 0

    def _admit(self, data: bytes) -> bytes:
        if not self._has_output_limit:
            return data
        admitted = data[: self._output_left]
        self._output_left -= len(admitted)
        return admitted

    def _settle_done(self) -> None:
        self._done.set()
        for watcher in (*self._watchers, *self._onlookers):
            watcher.wake()

    def _why(self) -> CrucibleError:
        failure = self.failure or SandboxError(f"Command {self.stream} has no end")
        return failure.with_traceback(None)


async def hang_up(process: Process, ended: Callable[[], Awaitable[object]]) -> None:
    with contextlib.suppress(CrucibleError, TimeoutError):
        await process.signal(_SIGHUP)
        async with process.within(HANGUP_GRACE_S):
            await ended()
    with contextlib.suppress(CrucibleError):
        await process.forget()
