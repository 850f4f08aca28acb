"""Whether a program before left a turn under way, found out without loading an engine or a database layer.

A session that no turn is under way in needs nobody: it is loaded when somebody asks for it.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote, unquote

from crucible.store.names import FILE_NAME

_OPEN = "SELECT 1 FROM agent_sessions WHERE json_extract(head, '$.turn') IS NOT NULL LIMIT 1"
_KNOWN_BY = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agent_sessions'"
_SQLITE = "sqlite:///"
_LARGEST_HEAD = 64 << 20


def may_have_open_turns(home: Path, *, store: str = "", database: str = "") -> bool:
    """`store` and `database` are as they are set, empty where they are not.

    True also for what cannot be looked at from here: a server's database, a package's store, a file that is damaged.
    """
    if store == "files":
        return any(_is_open(head) for head in (home / "sessions").glob("*/session.json"))
    if store not in ("", "sql"):
        return True
    if not database:
        return _has_open_turns(home / FILE_NAME)
    return not database.startswith(_SQLITE) or _has_open_turns(
        Path(unquote(database.removeprefix(_SQLITE)))
    )


def _has_open_turns(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
    except sqlite3.Error:
        return True
    try:
        if connection.execute(_KNOWN_BY).fetchone() is None:
            return False
        return connection.execute(_OPEN).fetchone() is not None
    except sqlite3.Error:
        return True
    finally:
        connection.close()


def _is_open(head: Path) -> bool:
    try:
        if head.stat().st_size > _LARGEST_HEAD:
            return True
        return json.loads(head.read_bytes()).get("turn") is not None
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, RecursionError):
        return True
