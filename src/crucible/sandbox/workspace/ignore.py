"""Which files of a workspace stay at home: the patterns of its `.crucibleignore`, a small part of git's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

IGNORE_FILE = ".crucibleignore"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    expression: re.Pattern[bytes]
    is_negated: bool
    only_directories: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The last pattern that matches decides. What is in an ignored directory is never asked about."""

    patterns: tuple[Pattern, ...] = ()

    def covers(self, name: bytes, *, is_directory: bool) -> bool:
        for pattern in reversed(self.patterns):
            if pattern.only_directories and not is_directory:
                continue
            if pattern.expression.fullmatch(name):
                return not pattern.is_negated
        return False


NOTHING_IGNORED = Ignore()


def load_ignore(directory: Path) -> Ignore:
    """The patterns of the directory's own file, or none."""
    try:
        with (directory / IGNORE_FILE).open("rb") as file:
            return parse_ignore(file.read(_MAX_BYTES).splitlines())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return NOTHING_IGNORED


def parse_ignore(lines: Iterable[bytes | str]) -> Ignore:
    """`#` comments, `*`, `?`, `[a-z]`, `**`, a leading `/`, a trailing `/`, and `!` to take one back."""
    patterns = []
    for line in lines:
        text = os.fsencode(line).strip()
        if not text or text.startswith(b"#"):
            continue
        is_negated = text.startswith(b"!")
        text = text.removeprefix(b"!")
        only_directories = text.endswith(b"/")
        text = text.rstrip(b"/")
        if text:
            patterns.append(
                Pattern(
                    expression=re.compile(_translate(text), re.DOTALL),
                    is_negated=is_negated,
                    only_directories=only_directories,
                )
            )
    return Ignore(patterns=tuple(patterns))


def _translate(pattern: bytes) -> bytes:
    """A pattern with a slash counts from the top; one without matches in every directory."""
    is_anchored = b"/" in pattern
    words = re.findall(rb"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", pattern.lstrip(b"/"), re.DOTALL)
    body = b"".join(_translate_word(word) for word in words)
    return body if is_anchored else rb"(?:.*/)?" + body


def _translate_word(word: bytes) -> bytes:
    match word:
        case b"**/":
            return rb"(?:.*/)?"
        case b"**":
            return rb".*"
        case b"*":
            return rb"[^/]*"
        case b"?":
            return rb"[^/]"
    if word.startswith(b"[") and len(word) > 2:
        inside = word[1:-1].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
        return b"[" + (b"^" + inside[1:] if inside.startswith(b"!") else inside) + b"]"
    return re.escape(word)
