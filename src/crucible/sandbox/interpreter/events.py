"""What a context tells while code runs in it. It comes out of the sandbox, so it is measured before it is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from crucible.errors import InterpreterFailed
from crucible.values import dataclass

MAX_EVENT: Final = 8 << 20
MAX_FORMS: Final = 64
MAX_FORM_NAME: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A value in the forms it has: `text`, `html`, `png` in base64 and so on. `is_main`: of the last expression."""

    forms: Mapping[str, Any]
    is_main: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The code raised an exception. That is a result."""

    name: str
    value: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event. `count` is how many pieces of code the context has run."""

    count: int


Event = Printed | Shown | Raised | Finished


def parse_event(data: bytes) -> Event:
    """Raises InterpreterFailed for anything that our own program would not say."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise _broken("what is no JSON") from None
    match said:
        case {"type": "stdout" | "stderr" as stream, "text": str(text)}:
            return Printed(stream=stream, text=text)
        case {"type": "result", "is_main": bool(is_main), "forms": dict(forms)}:
            if len(forms) > MAX_FORMS or any(len(name) > MAX_FORM_NAME for name in forms):
                raise _broken("a result of too many forms")
            return Shown(forms=forms, is_main=is_main)
        case {"type": "error", "name": str(name), "value": str(value), "traceback": str(trace)}:
            return Raised(name=name, value=value, traceback=trace)
        case {"type": "end", "execution_count": int(count)}:
            return Finished(count=count)
    raise _broken("an event that does not exist")


def _broken(what: str) -> InterpreterFailed:
    return InterpreterFailed(f"A context told {what}; a program in the sandbox may have damaged it")
