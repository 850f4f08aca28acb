"""Finds conversations by words in their titles and in what was said, and shows where."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, exists, or_, select

from crucible.conversations.folding import folded
from crucible.store.tables import conversations as tables

_BEFORE = 40
_SNIPPET = 160


def matching(query: str) -> Any:
    """Of a conversation: its title or something that was said has the words, as they stand there."""
    words = folded(query)
    said = exists().where(
        tables.texts.c.conversation == tables.conversations.c.id,
        tables.texts.c.folded.contains(words, autoescape=True),
    )
    return or_(tables.conversations.c.folded_title.contains(words, autoescape=True), said)


def snippet(connection: Connection, id: str, query: str) -> str:
    """What stands around the newest place where the words were said; empty if only the title has them."""
    words, own = folded(query), tables.texts.c
    text = connection.execute(
        select(own.text)
        .where(own.conversation == id, own.folded.contains(words, autoescape=True))
        .order_by(own.turn.desc(), own.role)
        .limit(1)
    ).scalar()
    return "" if text is None else around(text, words)


def around(text: str, words: str) -> str:
    at = folded(text).find(words)
    first = max(0, at - _BEFORE)
    piece = " ".join(text[first : first + _SNIPPET].split())
    before = "…" if first else ""
    after = "…" if first + _SNIPPET < len(text) else ""
    return f"{before}{piece}{after}"
