"""The summaries of a user's conversations, a page at a time, the latest first."""

from __future__ import annotations

from sqlalchemy import Connection, and_, or_, select

from crucible.memory.summaries import ConversationSummary
from crucible.store.tables.memory import memory_summaries as summaries


def summary_page(
    connection: Connection, *, user: str, after: tuple[float, str] | None, limit: int
) -> list[ConversationSummary]:
    """`after` is when the last one that was seen was made, and its session."""
    columns = summaries.c
    query = select(summaries).where(columns.user_id == user, columns.is_stale.is_(False))
    if after is not None:
        made_at, session = after
        earlier = and_(columns.made_at == made_at, columns.session < session)
        query = query.where(or_(columns.made_at < made_at, earlier))
    latest = query.order_by(columns.made_at.desc(), columns.session.desc()).limit(limit)
    return [
        ConversationSummary(
            session=row["session"], covers=row["covers"], text=row["text"], made_at=row["made_at"]
        )
        for row in connection.execute(latest).mappings()
    ]
