"""Users and their plans, limits, and what was spent and is reserved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_budgets"
down_revision: str | None = "0001_ledger"

_MEASURES = ("tokens", "usd", "sandbox_seconds", "iterations", "calls")


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("plan", sa.String(64), nullable=False, server_default=""),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "budget_limits",
        sa.Column("scope", sa.String(192), nullable=False),
        sa.Column("measure", sa.String(32), nullable=False),
        sa.Column("period", sa.String(16), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", "measure", "period", name="pk_budget_limits"),
    )
    op.create_table(
        "budget_scopes",
        sa.Column("scope", sa.String(192), nullable=False),
        sa.Column("touched_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_budget_scopes"),
    )
    op.create_table(
        "budget_spending",
        sa.Column("scope", sa.String(192), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        *_counts("spent"),
        *_counts("reserved"),
        sa.Column("overshoots", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("scope", "day", name="pk_budget_spending"),
    )
    op.create_table(
        "budget_reservations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _MEASURES),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_budget_reservations"),
    )
    op.create_index("ix_budget_reservations_state", "budget_reservations", ["state"])


def _counts(what: str) -> list[sa.Column[int]]:
    return [
        sa.Column(f"{name}_{what}", sa.BigInteger, nullable=False, server_default="0")
        for name in _MEASURES
    ]
