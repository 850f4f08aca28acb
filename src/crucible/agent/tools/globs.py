"""Patterns of file names: `*`, `?`, `[a-z]`, `**`, `{a,b}`. No pattern takes long to match, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crucible.agent.tools.calling import short
from crucible.errors import BadToolCall

LONGEST = 1024
MOST_ALTERNATIVES = 256

# A sign of a segment: one character, any one, or a set of which it is (or is not) one.
_STAR = "star"
_STARS = "**"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Set:
    ranges: tuple[tuple[str, str], ...]
    is_inverted: bool

    def holds(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.is_inverted


_ANY = _Set(ranges=(), is_inverted=True)
_Segment = tuple[object, ...]


class Glob:
    """A pattern of whole paths that are relative to some directory."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST:
            raise BadToolCall(
                f"A pattern may have at most {LONGEST} characters, not {len(pattern)}"
            )
        self._alternatives = [
            [_STARS if part == _STARS else _segment(part) for part in one.split("/") if part]
            for one in expand(pattern)
        ]

    def matches(self, path: str) -> bool:
        names = [name for name in path.split("/") if name]
        return any(_match(names, one, _is_name, _STARS) for one in self._alternatives)


def expand(pattern: str) -> list[str]:
    """Without braces: one pattern for each choice."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        braces = _innermost(one)
        if braces is None:
            done.append(one)
        else:
            start, end = braces
            waiting += [
                one[:start] + choice + one[end + 1 :] for choice in one[start + 1 : end].split(",")
            ]
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise BadToolCall(
                f"The braces of {short(pattern)} make more than {MOST_ALTERNATIVES} patterns"
            )
    return list(dict.fromkeys(done))


def fixed_part(pattern: str) -> str:
    """The directories at the front that hold no sign of a pattern."""
    parts = pattern.split("/")
    fixed = []
    for part in parts[:-1]:
        if set(part) & set("*?[{"):
            break
        fixed.append(part)
    return "/".join(fixed)


def _innermost(pattern: str) -> tuple[int, int] | None:
    """A pair of braces with a comma and no braces in it. One without a comma stands for itself."""
    start = -1
    for index, char in enumerate(pattern):
        if char == "{":
            start = index
        elif char == "}" and start >= 0:
            if "," in pattern[start:index]:
                return start, index
            start = -1
    return None


def _segment(text: str) -> _Segment:
    signs: list[object] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char == "*":
            if not signs or signs[-1] is not _STAR:
                signs.append(_STAR)
        elif char == "?":
            signs.append(_ANY)
        elif char == "[" and (end := _end_of_set(text, index)) > 0:
            signs.append(_set(text[index:end]))
            index = end + 1
        else:
            signs.append(_Set(ranges=((char, char),), is_inverted=False))
    return tuple(signs)


def _end_of_set(text: str, start: int) -> int:
    """A bracket that closes at once is one of the set."""
    first = start + 1 if text[start : start + 1] in ("!", "^") else start
    return text.find("]", first + 1)


def _set(text: str) -> _Set:
    is_inverted = text[:1] in ("!", "^")
    chars = text[1:] if is_inverted else text
    ranges, index = [], 0
    while index < len(chars):
        if chars[index + 1 : index + 2] == "-" and index + 2 < len(chars):
            ranges.append((chars[index], chars[index + 2]))
            index += 3
        else:
            ranges.append((chars[index], chars[index]))
            index += 1
    return _Set(ranges=tuple(ranges), is_inverted=is_inverted)


def _is_name(name: str, segment: object) -> bool:
    assert isinstance(segment, tuple)  # noqa: S101 - a `**` is never asked
    return _match(name, segment, _is_char, _STAR)


def _is_char(char: str, sign: object) -> bool:
    return isinstance(sign, _Set) and sign.holds(char)


def _match(
    items: Sequence[str], signs: Sequence[object], fits: Callable[[str, object], bool], star: str
) -> bool:
    """Takes as few as it can for each star, and goes back to the last one alone: never more than n times m steps."""
    item = sign = 0
    star_at, star_took = -1, 0
    while item < len(items):
        if sign < len(signs) and signs[sign] is star:
            star_at, star_took = sign, item
            sign += 1
        elif sign < len(signs) and fits(items[item], signs[sign]):
            item += 1
            sign += 1
        elif star_at >= 0:
            star_took += 1
            item, sign = star_took, star_at + 1
        else:
            return False
    return all(one is star for one in signs[sign:])
