"""Deadlines for what a machine does, in the machine's own time: while it is paused they stand still too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Patience:
    def __init__(self) -> None:
        self._left: dict[asyncio.Timeout, float] = {}
        self._stood_s = 0.0
        self._still_since: float | None = None

    def now(self) -> float:
        """Seconds that have passed for the machine, from some moment on."""
        still = self._still_since
        return (asyncio.get_running_loop().time() if still is None else still) - self._stood_s

    @asynccontextmanager
    async def within(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises TimeoutError when the machine has had so much time. None is for ever."""
        async with asyncio.timeout(seconds if self._still_since is None else None) as limit:
            if seconds is not None:
                self._left[limit] = seconds
            try:
                yield
            finally:
                self._left.pop(limit, None)

    def stand_still(self) -> None:
        """The machine was paused."""
        if self._still_since is not None:
            return
        self._still_since = asyncio.get_running_loop().time()
        for limit in self._left:
            when = limit.when()
            if when is not None and not limit.expired():
                self._left[limit] = max(0.0, when - self._still_since)
                limit.reschedule(None)

    def go_on(self) -> None:
        """The machine was resumed."""
        if self._still_since is None:
            return
        now = asyncio.get_running_loop().time()
        self._stood_s += now - self._still_since
        self._still_since = None
        for limit, left_s in self._left.items():
            if not limit.expired():
                limit.reschedule(now + left_s)
