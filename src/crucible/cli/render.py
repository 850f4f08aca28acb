"""Text for people and JSON for programs. Nothing that others chose reaches a terminal unescaped."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# `typing` would cost a third of the whole start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from crucible.errors import CrucibleError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def say(text: str) -> None:
    """A line of data."""
    _write(sys.stdout, text + "\n")


def tell(text: str) -> None:
    """A line of talk."""
    _write(sys.stderr, text + "\n")


def show_error(error: CrucibleError) -> None:
    """The code behind the message is for scripts: unlike the words it never changes."""
    tell(f"error: {visible(error.message)} ({visible(error.code)})")
    if error.hint:
        tell(f"hint: {visible(error.hint)}")


def show_json(value: object) -> None:
    import json

    say(json.dumps(value, indent=2))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what they hold. Without rows there is nothing to say on stdout."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (list(headings), *cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(padded).rstrip())


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        say(f"{name + ':':<{width}}{visible(value)}")


def visible(text: str) -> str:
    """Control characters, direction marks and bytes that are no text are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def size(count: float) -> str:
    for unit in _UNITS:
        if abs(count) < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def memory(mib: int) -> str:
    return size(mib * 1024 * 1024).replace(".0 ", " ")


def duration(seconds: float) -> str:
    """`3 s`, `5 min`, `2 h`, `4 d`: the coarsest unit that says something."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def moment(timestamp: float | None) -> str:
    import time

    if timestamp is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))


def _escape(letter: str) -> str:
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8, as the interpreter carries it
        return f"\\x{number - 0xDC00:02x}"
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")


def _write(stream: TextIO | None, text: str) -> None:
    """Whatever the encoding of the stream cannot hold is escaped; a stream that is closed takes nothing."""
    if stream is None:
        return
    encoded = text.encode(stream.encoding or "utf-8", "backslashreplace")
    stream.write(encoded.decode(stream.encoding or "utf-8"))
    stream.flush()
