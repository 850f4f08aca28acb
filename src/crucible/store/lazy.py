"""The one database of a program: opened by who first needs it, since to load it takes a while."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crucible.store.database import Database


class LazyDatabase:
    """All who work on it are handed the same one. Whoever made it closes it, after them."""

    def __init__(self, open: Callable[[], Database]) -> None:
        self._open = open
        self._opening = threading.Lock()
        self._database: Database | None = None
        self._is_closed = False

    def now(self) -> Database:
        """In a thread: others are being served."""
        with self._opening:
            if self._is_closed:
                from crucible.errors import EngineClosed

                raise EngineClosed
            if self._database is None:
                self._database = self._open()
            return self._database

    async def close(self) -> None:
        """For good. Costs nothing where nobody needed it."""
        with self._opening:
            self._is_closed = True
            database, self._database = self._database, None
        if database is not None:
            import asyncio

            # It waits for what has begun.
            await asyncio.to_thread(database.close)


def lazy_database(home: Path) -> LazyDatabase:
    """As the user has set it, or in a file of this home."""
    return LazyDatabase(lambda: own_database(home))


def own_database(home: Path) -> Database:
    """For a program that is about to use it; it is reached by the first who asks for something in it."""
    from crucible.store.address import database_url
    from crucible.store.database import Database

    return Database(database_url(home, dict(os.environ)))
