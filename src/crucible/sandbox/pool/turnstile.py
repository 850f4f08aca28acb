"""How many are served at once, and how many may wait how long. Who comes on top is told when to come again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crucible.errors import Overloaded
from crucible.values import dataclass

_LEAST_RETRY_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    running: int
    waiting: int
    wait_s: float


class Turnstile:
    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.running)
        self.running = 0
        self.waiting = 0
        self.refused = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """Gives the seconds that were waited for it. Raises Overloaded."""
        began = time.perf_counter()
        await self._wait()
        self.running += 1
        try:
            yield time.perf_counter() - began
        finally:
            self.running -= 1
            self._free.release()

    def facts(self) -> dict[str, object]:
        limits = self._limits
        return {
            "running": self.running,
            "waiting": self.waiting,
            "refused": self.refused,
            "most_running": limits.running,
            "most_waiting": limits.waiting,
            "wait_s": limits.wait_s,
        }

    async def _wait(self) -> None:
        if self._free.locked() and self.waiting >= self._limits.waiting:
            raise self._refusal("as many wait already as may")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise self._refusal(f"its turn did not come within {self._limits.wait_s:g} s") from None
        finally:
            self.waiting -= 1

    def _refusal(self, why: str) -> Overloaded:
        self.refused += 1
        retry_after_s = max(_LEAST_RETRY_S, round(self._limits.wait_s / 2))
        return Overloaded(self.running, self.waiting, why, retry_after_s)
