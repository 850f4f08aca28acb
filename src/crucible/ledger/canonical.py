"""One way to write a value: JSON after RFC 8785, of texts, whole numbers, true, false, null, lists and objects."""

from __future__ import annotations

import json
from collections.abc import Mapping

MAX_WHOLE = (1 << 53) - 1
_DEEPEST = 12

Plain = str | int | bool | None | list["Plain"] | dict[str, "Plain"]


class NotCanonical(ValueError):
    """It has no such form. The text says what is wrong, and not what the value is."""


def canonical(value: object, *, deepest: int = _DEEPEST) -> bytes:
    """Keys are ASCII, so that their order is the same in every language."""
    _check(value, deepest)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotCanonical("it has half of a surrogate pair") from None


def parse(data: bytes | str) -> Plain:
    """Only what `canonical` has written, to the byte."""
    try:
        raw = data.encode() if isinstance(data, str) else data
        value: Plain = json.loads(raw)
        same = canonical(value) == raw
    except (ValueError, RecursionError):
        raise NotCanonical("it is not canonical JSON") from None
    if not same:
        raise NotCanonical("it is not in canonical form")
    return value


def _check(value: object, depth: int) -> None:
    # `type`, not `isinstance`: a bool is an int, and a subclass may print itself as it likes.
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return
    if kind is int:
        if abs(value) > MAX_WHOLE:  # type: ignore[arg-type]
            raise NotCanonical("it has a whole number beyond 2^53")
        return
    if not depth:
        raise NotCanonical("it is nested too deep")
    if isinstance(value, Mapping) and kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                raise NotCanonical("it has a key that is no ASCII text")
            _check(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth - 1)
    else:
        raise NotCanonical(f"it has a {kind.__name__}; write it as a text or a whole number")
