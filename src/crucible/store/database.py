"""One database, by transactions: a plain function of a connection is run whole or not at all.

The rooms above say what is done; here is how: connections, threads, locks, and errors that name the state.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPICursor

from crucible.errors import DatabaseFailed, DatabaseUnreachable
from crucible.store.address import parse, shown
from crucible.store.engines import make_engine, reading, settle_log
from crucible.store.opening import bring_up_to_date
from crucible.store.translation import translated

T = TypeVar("T")
Work = Callable[[Connection], T]

_READERS = 4
_SERVER_WRITERS = 4


class Database:
    """Opened at first use, then of the schema of this program. Any thread may use it; close it in the end.

    `run` and `do` may write; `read` and `look` may not, and do not wait for who writes. Each calls `work` with a
    connection, in one transaction, which is kept if `work` returns and dropped if it raises. `run` and `read`
    work in threads of their own; one that has begun goes on to its end when who waits for it is cancelled.
    """

    def __init__(self, url: str) -> None:
        self._url = parse(url)
        self.place = shown(self._url)
        self._is_file = self._url.drivername.startswith("sqlite")
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        # SQLite has one writer; who waits for it here is woken at once, who waits in SQLite sleeps and looks again.
        self._writing: contextlib.AbstractContextManager[object] = (
            threading.Lock() if self._is_file else contextlib.nullcontext()
        )
        self._writers = _threads(1 if self._is_file else _SERVER_WRITERS)
        self._readers = _threads(_READERS)

    def __repr__(self) -> str:
        return f"Database({self.place!r})"

    async def run(self, work: Work[T]) -> T:
        return await self._in_thread(self._writers, self.do, work)

    async def read(self, work: Work[T]) -> T:
        return await self._in_thread(self._readers, self.look, work)

    def do(self, work: Work[T]) -> T:
        with translated(self.place):
            engine = self._open()
            with self._writing, engine.begin() as connection:
                return work(connection)

    def look(self, work: Work[T]) -> T:
        with translated(self.place), reading(self._open()).begin() as connection:
            return work(connection)

    async def scrub(self) -> bool:
        """Takes what was deleted out of SQLite's log as well: its pages hold what they held before.

        False while somebody else reads from it. A server keeps its log by its own rules: there is nothing to do here.
        """
        return await asyncio.get_running_loop().run_in_executor(self._writers, self._scrub)

    async def purge(self) -> bool:
        """As `scrub`, and writes the file anew: where rows were moved about, pages keep copies of them."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, self._purge)

    def open(self) -> None:
        """Reaches it and brings it up to date; `run` and the others do so themselves."""
        with translated(self.place):
            self._open()

    def settle(self) -> None:
        """Returns when what was committed before survives a loss of power. A server sees to that itself."""
        if self._is_file:
            try:
                settle_log(self._url)
            except OSError as error:
                raise DatabaseFailed(self.place, error.strerror or str(error)) from None

    def close(self) -> None:
        """Waits for what has begun. Used again, it is opened again."""
        for threads in (self._writers, self._readers):
            threads.shutdown(wait=True)
        with self._opening:
            engine, self._engine = self._engine, None
            self._writers = _threads(1 if self._is_file else _SERVER_WRITERS)
            self._readers = _threads(_READERS)
        if engine is not None:
            engine.dispose()

    def _purge(self) -> bool:
        if self._is_file:
            with translated(self.place), self._writing, self._bare_cursor() as cursor:
                cursor.execute("VACUUM")
        return self._scrub()

    def _scrub(self) -> bool:
        if not self._is_file:
            return True
        with translated(self.place), self._writing, self._bare_cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            found = cursor.fetchone()
            return found is not None and not found[0]

    @contextlib.contextmanager
    def _bare_cursor(self) -> Iterator[DBAPICursor]:
        """Outside of any transaction."""
        with contextlib.closing(self._open().raw_connection()) as connection:
            cursor = connection.cursor()
            # Whoever had the connection last may have only read.
            cursor.execute("PRAGMA query_only=0")
            yield cursor

    async def _in_thread(self, threads: Executor, do: Callable[[Work[T]], T], work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, do, work)

    def _open(self) -> Engine:
        if self._engine is not None:
            return self._engine
        with self._opening:
            if self._engine is None:
                self._engine = self._reached()
            return self._engine

    def _reached(self) -> Engine:
        try:
            engine = make_engine(self._url)
            try:
                bring_up_to_date(engine)
            except BaseException:
                engine.dispose()
                raise
        except OSError as error:
            raise DatabaseUnreachable(self.place, error.strerror or str(error)) from None
        return engine


def _threads(most: int) -> ThreadPoolExecutor:
    """None is started before it is needed."""
    return ThreadPoolExecutor(most, thread_name_prefix="database")
