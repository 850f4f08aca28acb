"""An object instead of text: what shape it must have, what is wrong with one, and what can be read of half of one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from crucible.agent.models.base import Schema
from crucible.agent.schemas import Fault as Fault
from crucible.agent.schemas import SchemaChecker, path_of, shown

if TYPE_CHECKING:
    from pydantic import BaseModel

_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_LARGEST_OBJECT = 4 << 20
_MOST_FAULTS = 20


class Shape(Protocol):
    @property
    def schema(self) -> Schema: ...

    def faults(self, value: Any) -> tuple[Fault, ...]: ...


def shape_of(wanted: Schema | Mapping[str, Any] | type[BaseModel], name: str = "answer") -> Shape:
    """Raises BadSetting for what is no JSON Schema."""
    if isinstance(wanted, Schema):
        return JsonShape(wanted)
    if isinstance(wanted, Mapping):
        return JsonShape(Schema(name=str(wanted.get("title") or name)[:64], schema=wanted))
    return PydanticShape(wanted)


class JsonShape:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._checker = SchemaChecker(schema.schema)

    @property
    def schema(self) -> Schema:
        return self._schema

    def faults(self, value: Any) -> tuple[Fault, ...]:
        return self._checker.faults(value)


class PydanticShape:
    """What a model of pydantic's says: its own validators count, too."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model
        self._schema = Schema(name=model.__name__[:64], schema=model.model_json_schema())

    @property
    def schema(self) -> Schema:
        return self._schema

    def faults(self, value: Any) -> tuple[Fault, ...]:
        from pydantic import ValidationError

        try:
            self._model.model_validate(value)
        except ValidationError as error:
            return tuple(
                Fault(path=path_of(one["loc"]), what=one["msg"], got=shown(one["input"]))
                for one in error.errors(include_url=False)[:_MOST_FAULTS]
            )
        return ()


def read_object(text: str) -> Any:
    """What JSON there is in an answer: all of it, what is fenced in it, or from its first bracket on.

    Raises ValueError with what is wrong, in words for the model.
    """
    if len(text) > _LARGEST_OBJECT:
        raise ValueError(f"the answer has {len(text)} characters, more than {_LARGEST_OBJECT}")
    found = _candidate(text)
    try:
        return json.loads(found, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the answer is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None


def read_partial(text: str) -> Any:
    """What can be known of an object of which only the beginning came; None if nothing yet."""
    from pydantic_core import from_json

    found = _candidate(text)
    if found.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return from_json(found, allow_partial="trailing-strings", allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None


def say_faults(faults: tuple[Fault, ...]) -> str:
    """What the model is told, so that it can do better."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return (
        "Your answer does not have the shape that was asked for:\n"
        f"{lines}\n"
        "Answer again with the whole corrected JSON, and nothing else."
    )


def ask_for_shape(schema: Schema) -> str:
    """For a model that takes no schema of its own."""
    text = json.dumps(schema.schema, ensure_ascii=False)
    return (
        f"Answer with one JSON value, and nothing around it, that matches this JSON Schema:\n{text}"
    )


def _candidate(text: str) -> str:
    bare = text.strip()
    if bare[:1] in ("{", "["):
        return bare
    if fenced := _FENCE.search(text):
        return fenced.group(1).strip()
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    if not starts:
        return bare
    start = min(starts)
    end = max(text.rfind("}"), text.rfind("]"))
    return text[start : end + 1] if end > start else text[start:]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"the answer is no JSON: {name} is no number")
