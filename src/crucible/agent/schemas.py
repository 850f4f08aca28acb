"""Checks values against a JSON Schema, in bounded time: the schema is a user's, the value
a model's, and either may be made so that an ordinary check never ends. Nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crucible.errors import BadSetting

_LARGEST_SCHEMA = 256 << 10
# About a second of checking, and more than an answer of 100,000 tokens takes.
_MOST_STEPS = 200_000
_CHOICES_A_STEP = 64
_MOST_FAULTS = 20
_LONGEST_SHOWN = 200
_LONGEST_WHAT = 300
_DEEP = 50
_NOT_SCHEMAS = frozenset({"const", "default", "enum", "examples"})

_Check = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`path` is as in `items[2].price`, empty for the object itself; `got` is what stands there, cut short."""

    path: str
    what: str
    got: str

    def __str__(self) -> str:
        return f"{self.path or 'the object'}: {self.what} (got {self.got})"


class SchemaChecker:
    """Raises BadSetting for what is no JSON Schema, or is one that is not taken."""

    def __init__(self, schema: Mapping[str, Any], *, most_steps: int | None = None) -> None:
        from jsonschema import exceptions, validators
        from referencing import Registry

        try:
            size = len(json.dumps(schema))
            if size > _LARGEST_SCHEMA:
                raise BadSetting(f"The schema has {size} characters, more than {_LARGEST_SCHEMA}")
            kind = validators.validator_for(schema, default=validators.Draft202012Validator)
            kind.check_schema(schema)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadSetting(f"The schema is no JSON: {error}") from None
        except exceptions.SchemaError as error:
            raise BadSetting(f"The schema is no JSON Schema: {error.message[:200]}") from None
        self._patterns: dict[str, Any] = {}
        self._steps = 0
        self._most_steps = most_steps or _MOST_STEPS
        self._look_through(schema)
        # Without a registry of others, a `$ref` to an address is an error and never a request.
        self._validator = validators.extend(kind, self._checks(kind.VALIDATORS))(
            schema, registry=Registry()
        )

    def faults(self, value: Any) -> tuple[Fault, ...]:
        """The first of them. Raises BadSetting where the schema cannot be followed to its end."""
        from referencing.exceptions import Unresolvable

        self._steps = 0
        found: list[Fault] = []
        try:
            for error in self._validator.iter_errors(value):
                what = _cut(error.message, _LONGEST_WHAT)
                path = path_of(error.absolute_path)
                found.append(Fault(path=path, what=what, got=shown(error.instance)))
                if len(found) >= _MOST_FAULTS:
                    break
        except Unresolvable as error:
            raise _refers_nowhere(error.ref) from None
        except RecursionError:
            if _is_deep(value):
                return (Fault(path="", what="it is nested too deeply", got=shown(value)),)
            raise BadSetting("The schema refers to itself without an end") from None
        except ArithmeticError:
            raise BadSetting("The schema has numbers that no value can be held against") from None
        return tuple(found)

    def _look_through(self, schema: Any) -> None:
        """What would fail only in the middle of a check, or when a model has been paid for, is refused before it."""
        waiting = [schema]
        names_itself = has_patterns = has_unevaluated = False
        references: list[str] = []
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting.extend(part)
            if not isinstance(part, dict):
                continue
            names_itself = names_itself or isinstance(part.get("$id", part.get("id")), str)
            if isinstance(pattern := part.get("pattern"), str):
                self._matcher(pattern)
            if isinstance(patterns := part.get("patternProperties"), dict):
                has_patterns = has_patterns or bool(patterns)
                for pattern in patterns:
                    self._matcher(pattern)
            has_unevaluated = has_unevaluated or "unevaluatedProperties" in part
            if isinstance(reference := part.get("$ref"), str):
                references.append(reference)
            waiting.extend(inner for name, inner in part.items() if name not in _NOT_SCHEMAS)
        if has_patterns and has_unevaluated:
            raise BadSetting(
                "The schema has both `patternProperties` and `unevaluatedProperties`",
                hint="Use `additionalProperties` in the place of `unevaluatedProperties`",
            )
        for reference in references:
            if not names_itself and not reference.startswith("#"):
                raise _refers_nowhere(reference)

    def _checks(self, checks: Mapping[str, _Check]) -> dict[str, _Check]:
        own: dict[str, _Check] = {
            "additionalProperties": self._additional_properties,
            "enum": self._enum(checks["enum"]),
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "uniqueItems": _unique_items,
        }
        return {name: self._counted(own.get(name, check)) for name, check in checks.items()}

    def _counted(self, check: _Check) -> _Check:
        def counted(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
            self._spend(1)
            yield from check(validator, wanted, value, schema) or ()

        return counted

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._most_steps:
            raise BadSetting(
                f"Checking against the schema takes more than {self._most_steps} steps"
            )

    def _enum(self, check: _Check) -> _Check:
        def enum(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
            self._spend(len(wanted) // _CHOICES_A_STEP)
            yield from check(validator, wanted, value, schema) or ()

        return enum

    def _pattern(self, validator: Any, wanted: Any, value: Any, _: Any) -> Iterator[Any]:
        from jsonschema import ValidationError

        if validator.is_type(value, "string") and not self._matches(wanted, value):
            yield ValidationError(f"{shown(value)} does not match {wanted!r}")

    def _pattern_properties(self, validator: Any, wanted: Any, value: Any, _: Any) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        for pattern, inner in wanted.items():
            for name, one in value.items():
                self._spend(1)
                if self._matches(pattern, name):
                    yield from validator.descend(one, inner, path=name, schema_path=pattern)

    def _additional_properties(
        self, validator: Any, wanted: Any, value: Any, schema: Any
    ) -> Iterator[Any]:
        from jsonschema import ValidationError

        if not validator.is_type(value, "object"):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        self._spend(len(value) * len(patterns))
        extra = [
            name
            for name in value
            if name not in known and not any(self._matches(one, name) for one in patterns)
        ]
        if isinstance(wanted, dict):
            for name in extra:
                yield from validator.descend(value[name], wanted, path=name)
        elif extra and not wanted:
            names = ", ".join(repr(name) for name in extra)
            yield ValidationError(f"Additional properties are not allowed: {names}")

    def _matches(self, pattern: str, text: str) -> bool:
        found: bool = self._matcher(pattern).isinstance_python(text)
        return found

    def _matcher(self, pattern: str) -> Any:
        """By an engine whose time grows with the text alone, as the interpreter's own does not."""
        from pydantic_core import SchemaError, SchemaValidator, core_schema

        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = SchemaValidator(core_schema.str_schema(pattern=pattern))
            except SchemaError:
                raise BadSetting(
                    f"The schema has the pattern {_cut(pattern, 80)!r}, which is not taken",
                    hint="Patterns may not look ahead, look behind or refer to their own groups",
                ) from None
        return self._patterns[pattern]


def path_of(parts: Any) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return _cut(text, _LONGEST_SHOWN)


def _refers_nowhere(reference: str) -> BadSetting:
    return BadSetting(
        f"The schema refers to what it does not have: {_cut(reference, 200)}",
        hint="Put what it refers to into its `$defs`; nothing is fetched",
    )


def _unique_items(validator: Any, wanted: Any, value: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and validator.is_type(value, "array"):
        keys = [_key(one) for one in value]
        if len(set(keys)) < len(keys):
            yield ValidationError(f"{shown(value)} has non-unique elements")


def _key(value: Any) -> Any:
    """Equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return ("bool", value)
        case list():
            return ("list", tuple(_key(one) for one in value))
        case dict():
            return ("dict", frozenset((name, _key(one)) for name, one in value.items()))
        case _:
            return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEP):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"
