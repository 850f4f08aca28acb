"""Whether arguments fit a JSON schema that somebody else wrote: a skill, an MCP server.

Such a schema is hostile: its patterns can take for ever, and so can references that branch. So regular expressions are
left to whoever wrote them, and after many steps the rest is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

_MOST_STEPS = 5_000
_MOST_TOLD = 5
# They search by regular expression, or judge what is below them once more at each level.
_LEFT_OUT = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")

_Check = Callable[[Any, Any, Any, Any], Iterable[Any] | None]
_steps: ContextVar[list[int]] = ContextVar("steps")


class _TooMany(Exception):
    pass


def faults_of(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """In words, or nothing. A schema that cannot be used decides nothing: who wrote it judges the arguments itself."""
    from referencing import Registry

    found: list[str] = []
    token = _steps.set([_MOST_STEPS])
    try:
        # With an empty registry nothing is ever fetched for a reference.
        for fault in _validator()(schema, registry=Registry()).iter_errors(dict(arguments)):
            found.append(f"{fault.json_path}: {fault.message[:200]}")
            if len(found) == _MOST_TOLD:
                break
    except Exception:
        return "; ".join(found)
    finally:
        _steps.reset(token)
    return "; ".join(found)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checks = {name: _counted(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    checks |= dict.fromkeys(_LEFT_OUT, _passed)
    checks["additionalProperties"] = _counted(_without_patterns(checks["additionalProperties"]))
    return extend(Draft202012Validator, checks)


def _counted(check: _Check) -> _Check:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any] | None:
        left = _steps.get()
        left[0] -= 1
        if left[0] < 0:
            raise _TooMany
        return check(validator, value, instance, schema)

    return counting


def _without_patterns(check: _Check) -> _Check:
    """What is additional depends on `patternProperties`, where there are any."""

    def checking(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any] | None:
        has_patterns = isinstance(schema, Mapping) and "patternProperties" in schema
        return None if has_patterns else check(validator, value, instance, schema)

    return checking


def _passed(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    return None
