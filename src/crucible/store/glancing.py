"""Whether there is a certain row in the database, found out without loading a database layer."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote, unquote

from crucible.store.names import FILE_NAME

_KNOWN_BY = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
_SQLITE = "sqlite:///"


def may_have(home: Path, database: str, *, table: str, query: str) -> bool:
    """`database` is as it is set, empty where it is not. `query` gives a row if there is one.

    True also for what cannot be looked at from here: a server's database, a file that is damaged.
    """
    if not database:
        return _has(home / FILE_NAME, table, query)
    if not database.startswith(_SQLITE):
        return True
    return _has(Path(unquote(database.removeprefix(_SQLITE))), table, query)


def _has(path: Path, table: str, query: str) -> bool:
    if not path.exists():
        return False
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
    except sqlite3.Error:
        return True
    try:
        if connection.execute(_KNOWN_BY, (table,)).fetchone() is None:
            return False
        return connection.execute(query).fetchone() is not None
    except sqlite3.Error:
        return True
    finally:
        connection.close()
