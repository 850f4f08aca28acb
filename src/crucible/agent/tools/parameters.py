"""What a tool takes, said once: the JSON Schema for the model and the check of what it sends are made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crucible.agent.tools.calling import kind_of, nearest, short
from crucible.errors import BadToolCall

Kind = Literal["text", "whole", "number", "flag", "list"]

_TYPES: Mapping[Kind, str] = {
    "text": "string",
    "whole": "integer",
    "number": "number",
    "flag": "boolean",
    "list": "array",
}
_WORDS: Mapping[Kind, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "list": "a list of objects",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`most` bounds a number, the length of a text or that of a list. Without a default it must be given.

    `of` are the parameters of the objects that a list holds.
    """

    name: str
    kind: Kind
    description: str
    default: str | int | float | bool | None = None
    is_required: bool = False
    least: float = 0
    most: float = math.inf
    choices: tuple[str, ...] = ()
    of: tuple[Parameter, ...] = ()


def schema_of(parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {one.name: _schema(one) for one in parameters},
        "required": [one.name for one in parameters if one.is_required],
        "additionalProperties": False,
    }


def check(
    tool: str, parameters: Sequence[Parameter], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """All of them, those that were left out with their defaults. A null is one left out."""
    known = {one.name: one for one in parameters}
    for name in arguments:
        if name not in known:
            raise BadToolCall(
                f"`{tool}` takes no argument {short(name)}. {nearest(name, known)}"
                f"It takes: {', '.join(known)}"
            )
    checked = {}
    for one in parameters:
        value = arguments.get(one.name)
        if value is None:
            if one.is_required:
                raise BadToolCall(f"`{tool}` needs `{one.name}`: {one.description}")
            checked[one.name] = one.default
        else:
            checked[one.name] = _checked(tool, one, value)
    return checked


def _schema(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[one.kind], "description": one.description}
    if one.choices:
        schema["enum"] = list(one.choices)
    if one.default is not None:
        schema["default"] = one.default
    if one.kind in ("whole", "number"):
        schema["minimum"] = one.least
        if one.most != math.inf:
            schema["maximum"] = one.most
    if one.of:
        schema["items"] = schema_of(one.of)
    return schema


def _checked(tool: str, one: Parameter, value: Any) -> Any:
    if not _is_of(one.kind, value):
        raise BadToolCall(
            f"`{one.name}` of `{tool}` must be {_WORDS[one.kind]}, "
            f"but {kind_of(value)} came: {short(value)}"
        )
    if one.choices and value not in one.choices:
        raise BadToolCall(
            f"`{one.name}` of `{tool}` must be one of {', '.join(one.choices)}, not {short(value)}"
        )
    if one.kind in ("whole", "number"):
        if not one.least <= value <= one.most:
            raise BadToolCall(
                f"`{one.name}` of `{tool}` must be from {one.least:g} to {one.most:g}, "
                f"not {short(value)}"
            )
    elif isinstance(value, str | list):
        _refuse_length(tool, one, value)
    if isinstance(value, list):
        return [check(f"{tool}.{one.name}", one.of, each) for each in value]
    return value


def _is_of(kind: Kind, value: Any) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "list":
        return isinstance(value, list) and all(isinstance(one, dict) for one in value)
    if isinstance(value, bool):
        return False
    if kind == "whole":
        return isinstance(value, int)
    return isinstance(value, int | float) and math.isfinite(value)


def _refuse_length(tool: str, one: Parameter, value: str | list[Any]) -> None:
    if len(value) > one.most:
        raise BadToolCall(
            f"`{one.name}` of `{tool}` may have at most {one.most:g} "
            f"{'characters' if isinstance(value, str) else 'entries'}; it has {len(value)}"
        )
    if len(value) < one.least:
        raise BadToolCall(f"`{one.name}` of `{tool}` is empty: {one.description}")
