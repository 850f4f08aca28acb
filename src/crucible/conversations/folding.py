"""Texts as they are kept to be searched: within bounds, of characters that every database takes, without their case."""

from __future__ import annotations

_LONGEST = 100_000


def kept_text(text: str) -> str:
    """PostgreSQL takes neither a NUL nor half a character."""
    return text[:_LONGEST].replace("\0", "").encode(errors="replace").decode()


def folded(text: str) -> str:
    """Character by character, so that what is found in it is at the same place of the text itself."""
    return "".join(low if len(low := one.lower()) == 1 else one for one in kept_text(text))
