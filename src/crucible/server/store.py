"""What the doors remember: tokens, as hashes, and answers to requests that may come again. Plain SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crucible.errors import StateDamaged, StateTooNew

FILE_NAME = "server.sqlite"
FORMAT = 1

_SCHEMA = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    sandbox TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL,
    expires_at REAL
);
CREATE TABLE answers (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    request BLOB NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (caller, key)
);
"""


class Store:
    """One connection; safe to use from many processes at once. Not to be shared between threads."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME
        with self._translated():
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
            self._path.chmod(0o600)
            self._db.row_factory = sqlite3.Row
            version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if version > FORMAT:
                raise StateTooNew(version, FORMAT, str(home))
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            if version == 0:
                self._create()

    def close(self) -> None:
        self._db.close()

    def read(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._translated():
            return self._db.execute(query, values).fetchall()

    def write(self, query: str, *values: Any) -> int:
        """How many rows it changed."""
        with self._translated():
            return self._db.execute(query, values).rowcount

    def _create(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        # Another process may have been faster.
        if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
        self._db.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise StateDamaged(f"{self._path} cannot be used: {error}") from error
