"""The words of an instruction: where they end, and what is in them once quotes and variables are resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Values can be doubled by a text that names them twice, again and again.
LONGEST_WORD = 1 << 16
_DEEPEST = 16


class BadWord(Exception):
    """Its message says what is wrong with it; who knows the line adds that."""


def split(text: str, escape: str) -> tuple[str, ...]:
    """At blanks outside of quotes. The words keep their quotes."""
    words: list[str] = []
    start, quote, at = -1, "", 0
    while at < len(text):
        letter = text[at]
        if not quote and letter in " \t":
            if start >= 0:
                words.append(text[start:at])
            start = -1
        else:
            start = at if start < 0 else start
            if letter == escape and quote != "'":
                at += 1
            elif letter in "\"'" and quote in ("", letter):
                quote = "" if quote else letter
        at += 1
    if quote:
        raise BadWord(f"a quote {quote} is not closed")
    if start >= 0:
        words.append(text[start:])
    return tuple(words)


def expand(text: str, variables: Mapping[str, str], escape: str) -> str:
    """Quotes taken away, and `$X`, `${X}`, `${X:-other}`, `${X-other}`, `${X:+other}`, `${X+other}` replaced."""
    return _Reader(text, variables, escape, 0).read()


class _Reader:
    def __init__(self, text: str, variables: Mapping[str, str], escape: str, depth: int) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._depth = depth
        self._at = 0

    def read(self) -> str:
        pieces: list[str] = []
        quote, total = "", 0
        while self._at < len(self._text):
            letter = self._text[self._at]
            self._at += 1
            if letter == self._escape and quote != "'":
                piece = self._escaped(quote)
            elif letter in "\"'" and quote in ("", letter):
                quote, piece = ("" if quote else letter), ""
            elif letter == "$" and quote != "'":
                piece = self._variable()
            else:
                piece = letter
            pieces.append(piece)
            total += len(piece)
            if total > LONGEST_WORD:
                raise BadWord(f"a value is longer than {LONGEST_WORD} characters")
        if quote:
            raise BadWord(f"a quote {quote} is not closed")
        return "".join(pieces)

    def _escaped(self, quote: str) -> str:
        if self._at == len(self._text):
            return self._escape
        letter = self._text[self._at]
        self._at += 1
        # Between double quotes only these have a meaning that can be taken away.
        return letter if not quote or letter in f'"${self._escape}' else self._escape + letter

    def _variable(self) -> str:
        if self._text.startswith("{", self._at):
            self._at += 1
            return self._braced()
        match = _NAME.match(self._text, self._at)
        if match is None:
            return "$"
        self._at = match.end()
        return self._variables.get(match[0], "")

    def _braced(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise BadWord("`${` is not followed by the name of a variable")
        name, self._at = match[0], match.end()
        inner = self._inside()
        found = self._variables.get(name)
        if not inner:
            return found or ""
        operator = inner[:2] if inner.startswith(":") else inner[:1]
        if operator not in (":-", ":+", "-", "+"):
            raise BadWord(
                f"`${{{name}{inner[:20]}}}` is none of ${{X:-Y}}, ${{X-Y}}, ${{X:+Y}}, ${{X+Y}}"
            )
        other = inner[len(operator) :]
        is_set = bool(found) if operator.startswith(":") else found is not None
        if operator.endswith("-"):
            return (found or "") if is_set else self._expand(other)
        return self._expand(other) if is_set else ""

    def _inside(self) -> str:
        """Up to the brace that closes this one."""
        start, open_braces = self._at, 1
        while self._at < len(self._text):
            letter = self._text[self._at]
            self._at += 1
            if letter == self._escape:
                self._at += 1
            elif letter == "{" and self._text[self._at - 2] == "$":
                open_braces += 1
            elif letter == "}":
                open_braces -= 1
                if not open_braces:
                    return self._text[start : self._at - 1]
        raise BadWord("a `${` is not closed")

    def _expand(self, text: str) -> str:
        if self._depth == _DEEPEST:
            raise BadWord("variables are nested too deeply")
        return _Reader(text, self._variables, self._escape, self._depth + 1).read()
