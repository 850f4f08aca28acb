"""Words of the shell: quoting removed, variables followed where they are known, split where the shell would."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crucible.agent.risk.places import HOLE
from crucible.agent.risk.shell.commands import DECODED, NOWHERE, Word

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_PLAIN_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}
_SPACE = re.compile(r"[ \t\n]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word; one that `splits` came from an expansion outside quotes."""

    text: str
    shape: str
    sources: frozenset[str] = NOWHERE
    splits: bool = False


def join(pieces: list[Piece]) -> list[Word]:
    """Usually one word; none or several when an expansion outside quotes is empty or has spaces."""
    words: list[Word] = []
    text, shape, sources, is_open = "", "", NOWHERE, False
    for piece in pieces:
        parts = _SPACE.split(piece.text) if piece.splits else [piece.text]
        for number, part in enumerate(parts):
            if number and is_open:
                words.append(Word(text=text, shape=shape, sources=sources))
                text, shape, sources, is_open = "", "", NOWHERE, False
            if part or not piece.splits:
                text, sources, is_open = text + part, sources | piece.sources, True
                shape += piece.shape if not piece.splits else HOLE
    if is_open:
        words.append(Word(text=text, shape=shape, sources=sources))
    return words


def unescape_bare(text: str) -> str:
    """Outside quotes a backslash keeps the next character, and goes with the end of a line."""
    return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], text, flags=re.DOTALL)


def unescape_double(text: str) -> str:
    return re.sub(r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], text)


def unescape_ansi(text: str) -> tuple[str, frozenset[str]]:
    """As `$'…'` and `printf` have it; letters written as numbers count as decoded."""
    is_coded = False

    def one(match: re.Match[str]) -> str:
        nonlocal is_coded
        hexadecimal = match[1] or match[2] or match[3]
        if hexadecimal or match[4]:
            is_coded = True
            number = int(hexadecimal, 16) if hexadecimal else int(match[4], 8)
            return chr(number) if 0 < number < 0xD800 else HOLE
        if match[5]:
            return HOLE
        return _PLAIN_ESCAPES.get(match[6], match[6])

    return _ESCAPE.sub(one, text), frozenset({DECODED}) if is_coded else NOWHERE
