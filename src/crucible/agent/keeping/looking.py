"""Whether a program before left a turn under way, found out without loading an engine or a database layer.

A session that no turn is under way in needs nobody: it is loaded when somebody asks for it.
"""

from __future__ import annotations

import json
from pathlib import Path

from crucible.store.glancing import may_have

_OPEN = "SELECT 1 FROM agent_sessions WHERE json_extract(head, '$.turn') IS NOT NULL LIMIT 1"
_LARGEST_HEAD = 64 << 20


def may_have_open_turns(home: Path, *, store: str = "", database: str = "") -> bool:
    """`store` and `database` are as they are set, empty where they are not.

    True also for what cannot be looked at from here: a server's database, a package's store, a file that is damaged.
    """
    if store == "files":
        return any(_is_open(head) for head in (home / "sessions").glob("*/session.json"))
    if store not in ("", "sql"):
        return True
    return may_have(home, database, table="agent_sessions", query=_OPEN)


def _is_open(head: Path) -> bool:
    try:
        if head.stat().st_size > _LARGEST_HEAD:
            return True
        return json.loads(head.read_bytes()).get("turn") is not None
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, RecursionError):
        return True
