"""Blocking work in a thread of its own, told as events while it goes on and given up when its caller goes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import CancelledError
from typing import Any

from crucible.images.on_demand import Abandoned
from crucible.sandbox.abandonable import beside
from crucible.server.problems import fields_of, from_exception
from crucible.server.streaming import event

MOST_WAITING = 64
_LAYER_EVERY_S = 0.2


class Telling:
    """What the work says. It waits while its caller is slow to read, and gets Abandoned when nobody reads any more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._is_stopped = threading.Event()
        self._layers: dict[str, float] = {}

    def note(self, stage: str, detail: str) -> None:
        self.tell("progress", {"stage": stage, "detail": detail})

    def layer(self, digest: str, here: int, size: int) -> None:
        """Of a layer only so many a second, and its end."""
        now = time.monotonic()
        self.go_on()
        if here >= size or now - self._layers.get(digest, 0.0) >= _LAYER_EVERY_S:
            self._layers[digest] = now
            self.tell("layer", {"digest": digest, "here_bytes": here, "size_bytes": size})

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        self.go_on()
        try:
            asyncio.run_coroutine_threadsafe(self._put(event(kind, data)), self._loop).result()
        except (CancelledError, RuntimeError):
            raise Abandoned from None

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped.is_set()

    def go_on(self) -> None:
        if self.is_stopped:
            raise Abandoned

    async def next(self) -> bytes:
        return await self._queue.get()

    def waiting(self) -> list[bytes]:
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    async def stop(self) -> None:
        """Whoever waits to say something is let go."""
        self._is_stopped.set()
        while self.waiting():  # noqa: ASYNC110 - each that is taken lets one more in
            await asyncio.sleep(0)

    async def _put(self, told: bytes) -> None:
        self.go_on()
        await self._queue.put(told)


async def told_as_events(
    work: Callable[[Telling], dict[str, Any]], request_id: str
) -> AsyncGenerator[bytes, None]:
    """What it says, then `done` with what it gave, or `error`."""
    telling = Telling()
    working = asyncio.ensure_future(beside(lambda: work(telling)))
    try:
        async with contextlib.aclosing(_said(telling, working)) as said:
            async for one in said:
                yield one
        yield event("done", await working)
    except Exception as error:
        yield event("error", fields_of(from_exception(error), request_id))
    finally:
        working.cancel()
        await telling.stop()
        await asyncio.gather(working, return_exceptions=True)


async def _said(
    telling: Telling, working: asyncio.Future[dict[str, Any]]
) -> AsyncGenerator[bytes, None]:
    while not working.done():
        coming = asyncio.ensure_future(telling.next())
        both: set[asyncio.Future[Any]] = {coming, working}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                yield coming.result()
        finally:
            coming.cancel()
    for one in telling.waiting():
        yield one
