"""What a conversation is called: the first words of its first prompt, until somebody gives it a name."""

from __future__ import annotations

import unicodedata

from crucible.errors import BadRequest

LONGEST_TITLE = 200
_FIRST_WORDS = 60
_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def title_of(prompt: str) -> str:
    """Cut at a word where one ends in reach."""
    words = _shown(prompt[: 50 * _FIRST_WORDS])
    if len(words) <= _FIRST_WORDS:
        return words
    cut = words[:_FIRST_WORDS]
    whole = cut.rpartition(" ")[0]
    return (whole if len(whole) > _FIRST_WORDS // 2 else cut).rstrip() + "…"


def check_title(text: str) -> str:
    """As a person wrote it, without what cannot be seen. Raises BadRequest."""
    title = _shown(text)
    if not 0 < len(title) <= LONGEST_TITLE:
        raise BadRequest(f"A title has 1 to {LONGEST_TITLE} characters that can be seen")
    return title


def _shown(text: str) -> str:
    """On one line, without characters that hide or turn around what stands beside them."""
    seen = "".join(
        " " if one.isspace() else one
        for one in text
        if one.isspace() or unicodedata.category(one) not in _UNSHOWN
    )
    return " ".join(seen.split())
