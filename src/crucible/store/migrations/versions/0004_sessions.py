"""Sessions, their messages and events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_sessions"
down_revision: str | None = "0003_memory"


def upgrade() -> None:
    op.create_table(
        "agent_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agent_sessions"),
    )
    op.create_index("ix_agent_sessions_created_at", "agent_sessions", ["created_at"])
    op.create_table(
        "agent_messages",
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session", "position", name="pk_agent_messages"),
        sa.ForeignKeyConstraint(
            ["session"], ["agent_sessions.id"], name="fk_agent_messages_session_agent_sessions"
        ),
    )
    op.create_table(
        "agent_events",
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session", "number", name="pk_agent_events"),
        sa.ForeignKeyConstraint(
            ["session"], ["agent_sessions.id"], name="fk_agent_events_session_agent_sessions"
        ),
    )
