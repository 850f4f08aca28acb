"""From what a model wrote to a tool and its arguments. Nothing is repaired: what is wrong is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from crucible.agent.tools import likeness
from crucible.agent.tools.base import Tool
from crucible.errors import BadToolCall

MOST_CHARACTERS = 4 << 20
MOST_DEPTH = 32
_SHOWN = 60


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call. Nothing at all is an empty object: so providers send a call without arguments."""
    if len(text) > MOST_CHARACTERS:
        raise BadToolCall(
            f"The arguments have {len(text)} characters; at most {MOST_CHARACTERS} are taken. "
            "Write large files in several steps"
        )
    if not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadToolCall(_why(text, error)) from None
    except RecursionError:
        raise BadToolCall(f"The arguments are nested deeper than {MOST_DEPTH} levels") from None
    except ValueError as error:
        raise BadToolCall(f"The arguments are no JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadToolCall(f"The arguments must be one JSON object, not {kind_of(value)}")
    _refuse_depth(value)
    return value


def find_tool(name: str, tools: Iterable[Tool]) -> Tool:
    known = {tool.spec.name: tool for tool in tools}
    if name in known:
        return known[name]
    raise BadToolCall(
        f"There is no tool {short(name)}. {nearest(name, known)}Tools: {', '.join(known) or 'none'}"
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence with what was probably meant, or nothing."""
    close = likeness.nearest(word, known, most=1)
    return f"Did you mean `{close[0]}`? " if close else ""


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


def short(value: object) -> str:
    """A value of the model's, as it may stand in a sentence."""
    shown = ascii(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadToolCall(f"The arguments name {short(key)} twice")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise BadToolCall(f"The arguments hold {name}, which is no JSON")


def _why(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return f"After the arguments' object more text follows: {short(text[error.pos :])}"
    near = short(text[max(0, error.pos - 20) : error.pos + 20])
    return (
        f"The arguments are no JSON: {error.msg} at line {error.lineno}, column {error.colno} "
        f"(character {error.pos} of {len(text)}), near {near}"
    )


def _refuse_depth(value: Mapping[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        level = [
            one
            for each in level
            for one in (each.values() if isinstance(each, dict) else each)
            if isinstance(one, dict | list)
        ]
        if not level:
            return
    raise BadToolCall(f"The arguments are nested deeper than {MOST_DEPTH} levels")
