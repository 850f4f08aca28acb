"""Those who follow a command: a watcher, whose pace is the command's, and an onlooker, for whom nothing waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from crucible.errors import FellBehind
from crucible.sandbox.session import Channel, Chunk
from crucible.values import replace

if TYPE_CHECKING:
    from crucible.sandbox.execution import Execution

HEARD = (Channel.OUTPUT, Channel.ERRORS)
# The bytes are shared by all onlookers of a command.
MOST_BEHIND_BYTES = 4 << 20

Starts = dict[Channel, int]


def beginnings() -> Starts:
    return dict.fromkeys(HEARD, 0)


class Watcher:
    """One who follows a command. What it got and has not `taken` yet holds the command back."""

    _is_cut = False

    def __init__(
        self, execution: Execution, starts: Starts, backlog: list[Chunk], ends: Starts
    ) -> None:
        self.execution = execution
        self.taken = dict(starts)
        self._position = dict(starts)
        self._chunks: deque[Chunk] = deque()
        self._woken = asyncio.Event()
        for chunk in backlog:
            room = ends[chunk.channel] - chunk.offset
            if room > 0:
                self.offer(replace(chunk, data=chunk.data[:room]))
        # Where each channel really goes on: what was asked for may not be kept any more.
        self.begins = {channel: self._first(channel) for channel in HEARD}

    async def next(self) -> Chunk | None:
        """The next bytes of either channel, None at the end; raises what the sandbox failed with."""
        while not self._chunks:
            if self._is_cut:
                return None
            if self.execution.is_done:
                if self.execution.failure is not None:
                    await self.execution.wait()
                return None
            self._woken.clear()
            await self._woken.wait()
        return self._chunks.popleft()

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """All that comes, to the end. What was given counts as taken when more is asked for."""
        while (chunk := await self.next()) is not None:
            yield chunk
            self.take(chunk.channel, len(chunk.data))

    def take(self, channel: Channel, count: int) -> None:
        self.taken[channel] += count
        self.execution.grant()

    def offer(self, chunk: Chunk) -> None:
        position = self._position[chunk.channel]
        known = max(0, position - chunk.offset)
        if known >= len(chunk.data):
            return
        if known:
            chunk = replace(chunk, offset=position, data=chunk.data[known:])
        # What nobody has any more counts as taken.
        self.taken[chunk.channel] += chunk.offset - position
        self._position[chunk.channel] = chunk.offset + len(chunk.data)
        self._chunks.append(chunk)
        self.wake()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.execution.leave(self)

    def _first(self, channel: Channel) -> int:
        found = (chunk.offset for chunk in self._chunks if chunk.channel is channel)
        return next(found, self._position[channel])


class Onlooker(Watcher):
    """One who follows a command at its own pace: nothing waits for it, and it is cut when it falls too far behind."""

    def __init__(
        self, execution: Execution, starts: Starts, backlog: list[Chunk], ends: Starts
    ) -> None:
        self._is_cut = False
        self._behind = 0
        self._most = sum(len(chunk.data) for chunk in backlog) + MOST_BEHIND_BYTES
        super().__init__(execution, starts, backlog, ends)

    async def next(self) -> Chunk | None:
        """As a watcher's. Raises FellBehind where it was cut: nothing is left out without a word."""
        chunk = None if self._is_cut else await super().next()
        if self._is_cut:
            raise FellBehind(self.execution.stream, MOST_BEHIND_BYTES)
        if chunk is not None:
            self._behind -= len(chunk.data)
        return chunk

    def take(self, channel: Channel, count: int) -> None:
        self.taken[channel] += count

    def offer(self, chunk: Chunk) -> None:
        super().offer(chunk)
        self._behind += len(chunk.data)
        if self._behind > self._most:
            self._is_cut = True
            self._chunks.clear()
            self.close()
