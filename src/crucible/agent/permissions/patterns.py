"""Patterns of permission rules: `*` and `?`, a backslash before what is meant as it stands. None takes long to match.

In patterns of paths `*` stays within a name and `**` crosses directories; in all others `*` is any text.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from crucible.agent.risk.places import HOLE

MAX_PATTERN = 4096
# Longer ones are written as a digest: an exact rule is kept with its session, and shown to people.
MAX_EXACT = 1000
_DIGEST = "=sha256:"
_SPECIAL = re.compile(r"([\\*?()])")
_MAX_COMPARED = 600


def escape(text: str) -> str:
    """The pattern that matches this text, and nothing else."""
    if len(text) > MAX_EXACT:
        return _DIGEST + digest(text)
    escaped = _SPECIAL.sub(r"\\\1", text)
    return f"\\{escaped}" if escaped.startswith("=") else escaped


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """`tokens` are characters as they stand, and `*`, `**` and `?` as the two-letter words `\\*`, `\\**`, `\\?`."""

    tokens: tuple[str, ...]
    digest: str = ""

    @property
    def literal(self) -> str | None:
        """Its text when it has no wildcard."""
        if self.digest or any(len(token) > 1 for token in self.tokens):
            return None
        return "".join(self.tokens)

    def is_exactly(self, text: str) -> bool:
        if self.digest:
            return digest(text) == self.digest
        return self.literal == text

    def matches(self, text: str) -> bool:
        """Anywhere a hole stands in the text, only a star of the pattern covers it."""
        if self.digest:
            return digest(text) == self.digest
        return _matches(self.tokens, text)

    def matches_path(self, path: str) -> bool:
        if self.digest:
            return digest(path) == self.digest
        return _matches_parts(_split(self.tokens), path.split("/"))

    def could_match(self, text: str) -> bool:
        """Whether some text in the place of the holes would match."""
        return not self.digest and _overlap(self.tokens, text)


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    if text.startswith(_DIGEST):
        return Pattern(tokens=(), digest=text.removeprefix(_DIGEST))
    tokens: list[str] = []
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and at + 1 < len(text):
            tokens.append(text[at + 1])
            at += 2
            continue
        if letter == "*":
            is_double = text[at : at + 2] == "**"
            tokens.append("\\**" if is_double else "\\*")
            at += 2 if is_double else 1
            continue
        tokens.append("\\?" if letter == "?" else letter)
        at += 1
    return Pattern(tokens=tuple(tokens))


def _is_star(token: str) -> bool:
    return token in ("\\*", "\\**")


def _fits(token: str, letter: str) -> bool:
    return letter != HOLE if token == "\\?" else token == letter  # noqa: S105 - no password


def _matches(tokens: tuple[str, ...], text: str) -> bool:
    """One star is remembered to come back to, which is enough, and never takes longer than their product."""
    at, place, star, resume = 0, 0, -1, 0
    while place < len(text):
        if at < len(tokens) and _is_star(tokens[at]):
            star, resume = at, place
            at += 1
        elif at < len(tokens) and _fits(tokens[at], text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return all(_is_star(token) for token in tokens[at:])


def _split(tokens: tuple[str, ...]) -> list[tuple[str, ...]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":  # noqa: S105 - no password
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts]


def _matches_parts(parts: list[tuple[str, ...]], names: list[str]) -> bool:
    """As `_matches`, with names for letters and a whole `**` for the star."""
    at, place, star, resume = 0, 0, -1, 0
    while place < len(names):
        if at < len(parts) and parts[at] == ("\\**",):
            star, resume = at, place
            at += 1
        elif at < len(parts) and _matches(parts[at], names[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return all(part == ("\\**",) for part in parts[at:])


def _overlap(tokens: tuple[str, ...], text: str) -> bool:
    """Whether a pattern and a text with holes have a text in common: both are read side by side."""
    letters = text if len(text) <= _MAX_COMPARED else text[:_MAX_COMPARED] + HOLE
    reached = {0}
    for token in (*tokens, ""):
        reached = _past_holes(reached, letters)
        if not token:
            return len(letters) in reached
        if _is_star(token):
            reached = set(range(min(reached), len(letters) + 1))
        else:
            stays = {at for at in reached if at < len(letters) and letters[at] == HOLE}
            moves = {
                at + 1
                for at in reached
                if at < len(letters) and letters[at] != HOLE and _fits(token, letters[at])
            }
            reached = stays | moves
        if not reached:
            return False
    return False


def _past_holes(reached: set[int], letters: str) -> set[int]:
    """A hole may be nothing at all."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(letters) and letters[at] == HOLE:
            at += 1
            found.add(at)
    return found
