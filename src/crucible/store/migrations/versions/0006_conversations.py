"""Conversations, what is searched in them, files given to them; and where a session's turns begin."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0006_conversations"
down_revision: str | None = "0005_accounts"

_MARKED = ("turn-began", "artifact", "retracted")
_PAGE = 1000


def upgrade() -> None:
    _conversations()
    _uploads()
    op.create_table(
        "agent_marks",
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("session", "kind", "number", name="pk_agent_marks"),
        sa.ForeignKeyConstraint(
            ["session"], ["agent_sessions.id"], name="fk_agent_marks_session_agent_sessions"
        ),
    )
    for kind in _MARKED:
        _mark(kind)


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("folded_title", sa.Text, nullable=False),
        sa.Column("is_pinned", sa.Boolean, nullable=False),
        sa.Column("model", sa.String(300), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("updated_at", sa.Float(53), nullable=False),
        sa.Column("deleted_at", sa.Float(53)),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_index(
        "ix_conversations_user_id_updated_at", "conversations", ["user_id", "updated_at"]
    )
    op.create_index("ix_conversations_deleted_at", "conversations", ["deleted_at"])
    op.create_table(
        "conversation_texts",
        sa.Column("conversation", sa.String(64), nullable=False),
        sa.Column("turn", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("conversation", "turn", "role", name="pk_conversation_texts"),
        sa.ForeignKeyConstraint(
            ["conversation"],
            ["conversations.id"],
            name="fk_conversation_texts_conversation_conversations",
        ),
    )


def _uploads() -> None:
    op.create_table(
        "conversation_uploads",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("conversation", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("media_type", sa.String(200), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_conversation_uploads"),
    )
    op.create_index("ix_conversation_uploads_user_id", "conversation_uploads", ["user_id"])
    op.create_index(
        "ix_conversation_uploads_conversation", "conversation_uploads", ["conversation"]
    )


def _mark(kind: str) -> None:
    """Of sessions that are there already."""
    connection = op.get_bind()
    marks = sa.table(
        "agent_marks", sa.column("session"), sa.column("kind"), sa.column("number"), sa.column("turn")
    )  # fmt: skip
    events = sa.table("agent_events", sa.column("session"), sa.column("number"), sa.column("body"))
    wanted = (
        sa.select(events.c.session, events.c.number, events.c.body)
        .where(events.c.body.contains(f'"kind":"{kind}"', autoescape=True))
        .order_by(events.c.session, events.c.number)
    )
    rows = [
        {"session": row.session, "kind": kind, "number": row.number, "turn": body["turn"]}
        for row in connection.execute(wanted)
        if (body := json.loads(row.body))["kind"] == kind
    ]
    for first in range(0, len(rows), _PAGE):
        connection.execute(sa.insert(marks), rows[first : first + _PAGE])
