"""Rolling summaries of long conversations, as they are kept: one for each, standing for its messages up to a number.

Who compacts a conversation writes them, and folds the one before into the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from crucible.memory.facts import normal_text
from crucible.memory.secrecy import is_secret
from crucible.memory.sentences import sentences
from crucible.store.tables.memory import memory_summaries as summaries

LONGEST_SUMMARY = 6000
_LEFT_OUT = "[left out]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSummary:
    """`text` stands for the first `covers` messages, but for those that are pinned."""

    session: str
    covers: int
    text: str
    made_at: float


def keepable_summary(text: str) -> str:
    """What a model wrote, without what a terminal would take for more than letters, secrets, and what is too much."""
    lines = (normal_text(line) for line in text[: 4 * LONGEST_SUMMARY].split("\n"))
    return "\n".join(_without_secrets(line) for line in lines)[:LONGEST_SUMMARY].strip()


def keep(connection: Connection, user: str, made: ConversationSummary) -> None:
    """In the place of the one before."""
    drop(connection, user, made.session)
    connection.execute(
        insert(summaries).values(
            session=made.session,
            user_id=user,
            covers=made.covers,
            text=made.text,
            made_at=made.made_at,
            is_stale=False,
            blobs=[],
        )
    )


def drop(connection: Connection, user: str, session: str) -> None:
    connection.execute(delete(summaries).where(*_chosen(user, session)))


def find(connection: Connection, user: str, session: str) -> ConversationSummary | None:
    """None where there is none, and where it went with a fact that was forgotten."""
    row = connection.execute(select(summaries).where(*_chosen(user, session))).mappings().first()
    if row is None or row["is_stale"]:
        return None
    return ConversationSummary(
        session=session, covers=row["covers"], text=row["text"], made_at=row["made_at"]
    )


def _chosen(user: str, session: str) -> tuple[Any, ...]:
    return summaries.c.session == session, summaries.c.user_id == user


def _without_secrets(line: str) -> str:
    if not is_secret(line):
        return line
    kept = (_LEFT_OUT if is_secret(sentence) else sentence for sentence in sentences(line))
    said = " ".join(kept)
    return _LEFT_OUT if is_secret(said) else said
