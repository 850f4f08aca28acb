"""Which store keeps sessions, by the setting CRUCIBLE_SESSION_STORE: `sql`, `files`, or one that a package brings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from crucible.agent.keeping.base import SessionStore
from crucible.errors import BadSetting, suggestion
from crucible.store.names import SESSIONS_VARIABLE

GROUP: Final = "crucible.session_stores"
VARIABLE: Final = SESSIONS_VARIABLE
_OWN: Final = ("sql", "files")


def choose_store(name: str, *, home: Path, database: Callable[[], Any]) -> SessionStore:
    """An entry point of the group is called with the state directory, and returns a `SessionStore`."""
    if name in ("", "sql"):
        from crucible.agent.keeping.sql import SqlSessions

        return SqlSessions(database())
    if name == "files":
        from crucible.agent.keeping.files import JsonFiles

        return JsonFiles(home / "sessions")
    return _of_package(name, home)


def _of_package(name: str, home: Path) -> SessionStore:
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=GROUP)}
    point = points.get(name)
    if point is None:
        raise BadSetting(
            f"{VARIABLE} is {name[:80]!r}", hint=suggestion(name, [*_OWN, *sorted(points)])
        )
    try:
        made: SessionStore = point.load()(home)
    except Exception as error:
        raise BadSetting(f"{VARIABLE} is {name!r}, and {point.value} failed: {error}") from error
    return made
