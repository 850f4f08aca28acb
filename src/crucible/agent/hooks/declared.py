"""Hooks as the user declares them, in a file of their own: `hooks.toml` beside the user's settings.

Hooks are programs on this host. A project can therefore not declare any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crucible.agent.hooks.points import FACTS, POINTS, OnFailure, Point
from crucible.errors import BadSetting, suggestion
from crucible.user_file import read_own_toml, user_file

FILE_NAME = "hooks.toml"
VARIABLE = "CRUCIBLE_HOOKS"
USUAL_TIMEOUT_S = 10.0
LONGEST_TIMEOUT_S = 600.0
MOST_HOOKS = 64
_WAYS = ("command", "http", "python")
_KEYS = ("name", "on", "tools", "timeout_s", "on_failure", "environment", "headers_env", *_WAYS)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

Way = Literal["command", "http", "python"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """`target` is the words of a command, one URL, or the name of an entry point.

    `environment` are names of variables that a command gets beside the few every program needs. `headers_env` maps
    headers of a request to the variables that hold their values.
    """

    name: str
    on: tuple[Point, ...]
    way: Way
    target: tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = USUAL_TIMEOUT_S
    on_failure: OnFailure | None = None
    environment: tuple[str, ...] = ()
    headers_env: Mapping[str, str] | None = None

    def policy(self, point: Point) -> OnFailure:
        return self.on_failure or FACTS[point].on_failure


def declared_hooks(environment: Mapping[str, str]) -> tuple[Declared, ...]:
    path = _place(environment)
    if path is None:
        return ()
    document = read_own_toml(path)
    unknown = set(document) - {"hook"}
    if unknown:
        raise BadSetting(
            f"{path} has no use for {min(unknown)!r}", hint="Each hook is a table [[hook]]"
        )
    tables = document.get("hook", [])
    if not isinstance(tables, list) or len(tables) > MOST_HOOKS:
        raise BadSetting(f"{path} needs tables [[hook]], at most {MOST_HOOKS}")
    found = tuple(
        parse_hook(table, f"hook {place} of {path}") for place, table in enumerate(tables, 1)
    )
    names = [hook.name for hook in found]
    for name in names:
        if names.count(name) > 1:
            raise BadSetting(f"{path} has two hooks of the name {name!r}")
    return found


def parse_hook(table: object, where: str) -> Declared:
    """Raises BadSetting."""
    if not isinstance(table, dict):
        raise BadSetting(f"{where} is no table")
    for key in table:
        if key not in _KEYS:
            raise BadSetting(f"{where} has no use for {key!r}", hint=suggestion(key, _KEYS))
    way, target = _way(table, where)
    name = _text(table.get("name"), f"`name` of {where}")
    if _NAME.fullmatch(name) is None:
        raise BadSetting(f"`name` of {where} is {name[:80]!r}", hint="Letters, digits, - and _")
    return Declared(
        name=name,
        on=tuple(_point(one, where) for one in _texts(table.get("on"), f"`on` of {where}")),
        way=way,
        target=target,
        tools=_texts(table.get("tools", ["*"]), f"`tools` of {where}"),
        timeout_s=_seconds(table.get("timeout_s", USUAL_TIMEOUT_S), where),
        on_failure=_on_failure(table.get("on_failure"), where),
        environment=_texts(table.get("environment", []), f"`environment` of {where}", least=0),
        headers_env=_headers(table.get("headers_env"), where),
    )


def _place(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get(VARIABLE):
        if not Path(named).is_absolute():
            raise BadSetting(f"{VARIABLE} is {named!r}", hint="It must be an absolute path")
        return Path(named)
    own = user_file(environment)
    # Settings that are turned off by the null device have no place for hooks either.
    return None if own is None or own == Path(os.devnull) else own.with_name(FILE_NAME)


def _way(table: Mapping[str, Any], where: str) -> tuple[Way, tuple[str, ...]]:
    given = [way for way in _WAYS if way in table]
    if len(given) != 1:
        raise BadSetting(f"{where} needs one of {', '.join(_WAYS)}")
    if given[0] == "command":
        words = _texts(table["command"], f"`command` of {where}")
        if any("\0" in word for word in words):
            raise BadSetting(f"`command` of {where} has a NUL in it")
        return "command", words
    text = _text(table[given[0]], f"`{given[0]}` of {where}")
    if given[0] == "python":
        return "python", (text,)
    if not text.startswith(("http://", "https://")):
        raise BadSetting(f"`http` of {where} is {text[:80]!r}", hint="It must be a URL")
    return "http", (text,)


def _point(text: str, where: str) -> Point:
    for point in POINTS:
        if text == point:
            return point
    raise BadSetting(f"`on` of {where} names {text[:80]!r}", hint=suggestion(text, POINTS))


def _on_failure(value: object, where: str) -> OnFailure | None:
    if value is None or value == "block" or value == "pass":
        return value
    raise BadSetting(f"`on_failure` of {where} is {value!r:.80}", hint="Use block or pass")


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSetting(f"`timeout_s` of {where} is {value!r:.80}", hint="It must be a number")
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise BadSetting(
            f"`timeout_s` of {where} is {value:g}", hint=f"At most {LONGEST_TIMEOUT_S:g}"
        )
    return float(value)


def _headers(value: object, where: str) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise BadSetting(f"`headers_env` of {where} must map headers to names of variables")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 4096:
        raise BadSetting(f"{what} must be a text in quotes")
    return value


def _texts(value: object, what: str, *, least: int = 1) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not least <= len(value) <= 64:
        raise BadSetting(f"{what} must be a list of texts")
    return tuple(_text(one, what) for one in value)
