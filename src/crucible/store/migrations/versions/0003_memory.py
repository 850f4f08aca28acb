"""What is remembered of users."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_memory"
down_revision: str | None = "0002_budgets"

_NAME = sa.String(200)


def upgrade() -> None:
    op.create_table(
        "memory_users",
        sa.Column("user_id", _NAME, nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("erased", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_memory_users"),
    )
    op.create_table(
        "memory_silences",
        sa.Column("user_id", _NAME, nullable=False),
        sa.Column("session", _NAME, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "session", name="pk_memory_silences"),
    )
    _facts()
    op.create_table(
        "memory_summaries",
        sa.Column("session", _NAME, nullable=False),
        sa.Column("user_id", _NAME, nullable=False),
        sa.Column("covers", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("is_stale", sa.Boolean(), nullable=False),
        sa.Column("blobs", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("session", name="pk_memory_summaries"),
    )
    op.create_index("ix_memory_summaries_user_id", "memory_summaries", ["user_id"])


def _facts() -> None:
    op.create_table(
        "memory_facts",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("user_id", _NAME, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("attribute", sa.String(80), nullable=False),
        sa.Column("session", _NAME, nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("quote", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("recalled_at", sa.Double()),
        sa.Column("recalls", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.Double()),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("superseded_by", sa.String(40), nullable=False),
        sa.Column("blobs", sa.JSON(), nullable=False),
        sa.Column("vector", sa.LargeBinary()),
        sa.Column("vector_model", sa.String(80), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('fact', 'preference', 'goal', 'constraint')", name="ck_memory_facts_kind"
        ),
        sa.CheckConstraint(
            "state IN ('active', 'superseded', 'expired')", name="ck_memory_facts_state"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["memory_users.user_id"], name="fk_memory_facts_user_id_memory_users"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_memory_facts"),
    )
    op.create_index("ix_memory_facts_user_id_generation", "memory_facts", ["user_id", "generation"])
    op.create_index("ix_memory_facts_user_id_state", "memory_facts", ["user_id", "state"])
