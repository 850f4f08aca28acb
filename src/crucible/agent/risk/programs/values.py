"""What is known of a value before a program runs: what it stands for, its text, where it comes from."""

from __future__ import annotations

import base64
import binascii
import codecs
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from crucible.agent.risk.places import HOLE
from crucible.agent.risk.shell.commands import BUILT, DECODED, FETCHED, NOWHERE, SECRET

__all__ = ["BUILT", "DECODED", "FETCHED", "NOWHERE", "SECRET", "UNKNOWN", "Value"]

_MAX_PATH = 160
_MAX_TEXT = 64 * 1024
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})"
    r"|(N\{[^}]*\})|(\r?\n)|(.))",
    re.DOTALL,
)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`path` is a dotted name such as `os.system` or `requests.Session().get`; `holder` what it is a member of."""

    path: str = ""
    text: str | None = None
    number: int | None = None
    items: tuple[Value, ...] | None = None
    sources: frozenset[str] = NOWHERE
    holder: Value | None = None

    @property
    def known_text(self) -> str | None:
        return self.text if self.text is not None and HOLE not in self.text else None

    def member(self, name: str) -> Value:
        path = f"{self.path or '?'}.{name}"
        if len(path) > _MAX_PATH:
            return Value(sources=self.sources)
        holder = replace(self, holder=None) if self.holder is not None else self
        return Value(path=path, sources=self.sources, holder=holder)

    def result(self) -> Value:
        return Value(path=f"{self.path}()" if self.path else "", sources=self.sources)

    def from_(self, *sources: str) -> Value:
        return replace(self, sources=self.sources | set(sources))


UNKNOWN = Value()


def text_value(text: str, sources: frozenset[str] = NOWHERE) -> Value:
    return Value(text=text[:_MAX_TEXT] if len(text) <= _MAX_TEXT else HOLE, sources=sources)


def joined_sources(values: Iterable[Value]) -> frozenset[str]:
    return NOWHERE.union(*(value.sources for value in values))


def concatenated(values: list[Value]) -> Value:
    """A text of its parts, holes for what is not known; nothing when none of it is a text."""
    sources = joined_sources(values)
    if not any(value.text is not None for value in values):
        return Value(sources=sources)
    text = "".join(_as_text(value) for value in values)
    return text_value(text, sources | {BUILT})


def joined_path(values: list[Value]) -> Value:
    parts = [_as_text(value) for value in values]
    return text_value(posixpath.join(*parts) if parts else "", joined_sources(values))


def reversed_value(value: Value) -> Value:
    sources = value.sources | {DECODED}
    if value.text is not None:
        return text_value(value.text[::-1], sources)
    if value.items is not None:
        return Value(items=value.items[::-1], sources=sources)
    return value


def decoded(kind: str, value: Value) -> Value:
    """What comes out of a decoder, worked out where its input is known."""
    sources = value.sources | {DECODED}
    known = value.known_text
    if known is None:
        return Value(sources=sources)
    try:
        return text_value(_decode(kind, known), sources)
    except (ValueError, binascii.Error, UnicodeError):
        return Value(sources=sources)


def unescape(text: str) -> tuple[str, bool]:
    """A literal without its escapes, and whether letters were written as numbers."""
    if "\\" not in text:
        return text, False
    is_coded = False

    def one(match: re.Match[str]) -> str:
        nonlocal is_coded
        digits = match[1] or match[2] or match[3] or match[4]
        if digits or match[5]:
            number = int(digits, 16) if digits else int(match[5], 8)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                return HOLE
            is_coded = is_coded or (number < 128 and chr(number).isalpha())
            return chr(number)
        if match[6]:
            return HOLE
        return "" if match[7] else _PLAIN.get(match[8], match[8])

    return _ESCAPE.sub(one, text), is_coded


def _decode(kind: str, text: str) -> str:
    match kind:
        case "base64":
            padded = re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))
            return base64.b64decode(padded + "=" * (-len(padded) % 4)).decode("utf-8", "replace")
        case "hex":
            return bytes.fromhex(text).decode("utf-8", "replace")
        case "rot13":
            return codecs.encode(text, "rot13")
    return HOLE


def _as_text(value: Value) -> str:
    if value.text is not None:
        return value.text
    return str(value.number) if value.number is not None else HOLE
