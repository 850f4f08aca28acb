"""What the doors remember: tokens, as hashes, and answers to requests that may come again. Plain SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crucible.errors import StateDamaged, StateTooNew

FILE_NAME = "server.sqlite"
FORMAT = 2

_SCHEMA = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    sandbox TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL,
    expires_at REAL,
    user TEXT NOT NULL DEFAULT 'local'
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

# What leads from one format to the next, by the format that it leads from.
_STEPS = {1: "ALTER TABLE tokens ADD COLUMN user TEXT NOT NULL DEFAULT 'local'"}


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
            if version < FORMAT:
                self._bring_up_to_date()

    def close(self) -> None:
        self._db.close()

    def read(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._translated():
            return self._db.execute(query, values).fetchall()

    def write(self, query: str, *values: Any) -> int:
        """How many rows it changed."""
        with self._translated():
            return self._db.execute(query, values).rowcount

    def _bring_up_to_date(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        # Another process may have been faster.
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        statements = _SCHEMA.split(";") if found == 0 else []
        if found:
            statements = [_STEPS[step] for step in range(found, FORMAT)]
        for statement in statements:
            self._db.execute(statement)
        if found < FORMAT:
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
        self._db.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise StateDamaged(f"{self._path} cannot be used: {error}") from error
