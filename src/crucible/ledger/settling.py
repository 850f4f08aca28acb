"""Brings what was appended safely to disk, in the background and many at a time, and only then moves the heads.

So an append need not wait for a disk, and whatever a head vouches for survives a loss of power.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from crucible.errors import LedgerUnwritable
from crucible.ledger.files import settle
from crucible.ledger.heads import Head, Heads
from crucible.store.database import Database

# What comes within this time goes to disk together.
_GATHER_S = 0.05


class Settling:
    """One thread while there is something to do, none else. Any thread may add."""

    def __init__(self, database: Database, heads: Heads, key: str) -> None:
        self._database = database
        self._heads = heads
        self._key = key
        self._lock = threading.Lock()
        self._pending: dict[str, tuple[Head, bytes]] = {}
        self._files: list[Path] = []
        self._working: Future[None] | None = None
        self._hurry = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="settling")

    def add(self, head: Head, signature: bytes, files: list[Path]) -> None:
        with self._lock:
            self._keep(head, signature)
            self._files += files
            if self._working is None or self._working.done():
                self._working = self._thread.submit(self._work)

    def check(self) -> None:
        """Before more is recorded: raises LedgerUnwritable if what was added could not be brought to disk even now."""
        with self._lock:
            has_failed = self._working is not None and self._working.done()
        if has_failed:
            self.wait()

    def wait(self) -> None:
        """Until all that was added is safe. Raises what went wrong with it."""
        with self._lock:
            if self._working is not None and self._working.done():
                self._working = self._thread.submit(self._work)
            working = self._working
            self._hurry.set()
        if working is not None:
            working.result()

    def close(self) -> None:
        self._hurry.set()
        self._thread.shutdown(wait=True)

    def _work(self) -> None:
        while True:
            self._hurry.wait(_GATHER_S)
            with self._lock:
                self._hurry.clear()
                heads, self._pending = self._pending, {}
                files, self._files = self._files, []
                if not heads:
                    self._working = None
                    return
            try:
                self._settle(heads, files)
            except BaseException as error:
                with self._lock:
                    for head, signature in heads.values():
                        self._keep(head, signature)
                    self._files += files
                if isinstance(error, OSError):
                    raise LedgerUnwritable(error.strerror or str(error)) from None
                raise

    def _settle(self, heads: dict[str, tuple[Head, bytes]], files: list[Path]) -> None:
        for path in files:
            settle(path)
        self._database.settle()
        for head, signature in heads.values():
            self._heads.write(head, self._key, signature)

    def _keep(self, head: Head, signature: bytes) -> None:
        known = self._pending.get(head.run)
        if known is None or known[0].count < head.count:
            self._pending[head.run] = (head, signature)
