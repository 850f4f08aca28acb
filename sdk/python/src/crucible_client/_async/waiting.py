"""What waiting means where others run meanwhile. Its twin in `_sync` has the same names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# What to call with a piece of text as it comes; it may itself be asynchronous.
Told = Callable[[str], Awaitable[object] | object]


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def beside(work: Callable[[], T]) -> T:
    """For what would hold up the others."""
    return await asyncio.to_thread(work)


async def tell(told: Told | None, text: str) -> None:
    if told is not None:
        answer = told(text)
        if inspect.isawaitable(answer):
            await answer


async def finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """To its end, even if whoever waits is told to stop meanwhile."""
    return await asyncio.shield(asyncio.ensure_future(work()))


class Background:
    """Work that goes on by itself, and ends with the program at the latest."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.ensure_future(work())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
