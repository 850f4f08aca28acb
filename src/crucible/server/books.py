"""The database behind the doors: opened when somebody first asks for what is in it, and shared with the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from crucible.errors import EngineClosed

if TYPE_CHECKING:
    from crucible.books import Books


class LazyBooks:
    def __init__(self, open: Callable[[], Books]) -> None:
        self._open = open
        self._opening = asyncio.Lock()
        self._books: Books | None = None
        self._is_closed = False

    async def get(self) -> Books:
        async with self._opening:
            if self._is_closed:
                raise EngineClosed
            if self._books is None:
                # In a thread: to load it takes a while, and others are being served.
                self._books = await asyncio.to_thread(self._open)
            return self._books

    async def close(self) -> None:
        """After the engine, which works on them."""
        async with self._opening:
            self._is_closed = True
            if self._books is not None:
                await self._books.close()
