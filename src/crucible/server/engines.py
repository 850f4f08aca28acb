"""The agent's engine behind the doors: made when somebody first asks for it, since to load it takes seconds."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crucible.errors import CrucibleError, EngineClosed
from crucible.server.books import LazyBooks

if TYPE_CHECKING:
    from crucible.agent.engine import Engine
    from crucible.sandbox.service.dispatch import Service


class LazyEngine:
    """One engine for all callers; who comes while it is made waits with the others.

    `was_left` tells whether a holder before us may have left sessions in the middle of a turn, or something to purge;
    `tidy` is what goes on beside the engine as long as it is there.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[Engine]],
        was_left: Callable[[], bool] = lambda: False,
        tidy: Callable[[Engine], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._make = make
        self._was_left = was_left
        self._tidy = tidy
        self._tidying: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._engine: Engine | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether turns are under way: an owner that was started on demand stays for them."""
        if self._engine is None:
            return False
        health = self._engine.health()
        return bool(health.busy or health.waiting)

    async def get(self) -> Engine:
        async with self._opening:
            if self._is_closed:
                raise EngineClosed
            if self._engine is None:
                with _modules_are_no_garbage():
                    self._engine = await self._make()
                if self._tidy is not None:
                    self._tidying = asyncio.create_task(self._tidy(self._engine))
            return self._engine

    async def take_up(self) -> None:
        """What a holder before us left in the middle of a turn goes on, or is told to be interrupted."""
        try:
            if await asyncio.to_thread(self._was_left):
                await self.get()
        except CrucibleError:
            # Whoever asks for a session is told; sandboxes are served all the same.
            traceback.print_exc()

    async def close(self) -> None:
        async with self._opening:
            self._is_closed = True
            if self._tidying is not None:
                self._tidying.cancel()
                await asyncio.gather(self._tidying, return_exceptions=True)
            if self._engine is not None:
                await self._engine.close()


@contextmanager
def _modules_are_no_garbage() -> Iterator[None]:
    """What is loaded now stays. To look through all of it for what does not would keep everybody waiting, and again
    each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def engine_of(service: Service, books: LazyBooks) -> LazyEngine:
    async def make() -> Engine:
        from importlib import import_module

        # Before the engine, which loads some of the same: two threads that load a package with circles in it at once
        # each see half of it.
        kept = await books.get()
        # In a thread: it takes a while, and others are being served.
        await asyncio.to_thread(import_module, "crucible.agent.engine")
        from crucible.assemble import engine

        return await engine(service, kept)

    def was_left() -> bool:
        from crucible.assemble import may_have_left_work

        return may_have_left_work(service.manager.config)

    async def tidy(engine: Engine) -> None:
        from crucible.conversations.purging import keep_clean
        from crucible.server.belonging import conversations_of

        await keep_clean(conversations_of(engine), engine, (await books.get()).ledger)

    return LazyEngine(make, was_left, tidy)
