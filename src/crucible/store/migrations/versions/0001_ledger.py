"""Runs and their entries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_ledger"
down_revision: str | None = None


def upgrade() -> None:
    op.create_table(
        "ledger_runs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("opened_us", sa.BigInteger, nullable=False),
        sa.Column("user", sa.String(200), nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_runs"),
    )
    op.create_index("ix_ledger_runs_user_opened_us", "ledger_runs", ["user", "opened_us"])
    op.create_index("ix_ledger_runs_opened_us", "ledger_runs", ["opened_us"])
    op.create_table(
        "ledger_entries",
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("started_us", sa.BigInteger, nullable=False),
        sa.Column("duration_us", sa.BigInteger, nullable=False),
        sa.Column("tokens_in", sa.BigInteger, nullable=False),
        sa.Column("tokens_out", sa.BigInteger, nullable=False),
        sa.Column("tokens_cached", sa.BigInteger, nullable=False),
        sa.Column("cost_micros", sa.BigInteger),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("sandbox", sa.String(200), nullable=False),
        sa.Column("image", sa.String(200), nullable=False),
        sa.Column("isolation", sa.String(200), nullable=False),
        sa.Column("exit_status", sa.BigInteger),
        sa.Column("input", sa.String(64)),
        sa.Column("output", sa.String(64)),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("signature", sa.String(88), nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name="pk_ledger_entries"),
        sa.ForeignKeyConstraint(
            ["run"], ["ledger_runs.id"], name="fk_ledger_entries_run_ledger_runs"
        ),
    )
