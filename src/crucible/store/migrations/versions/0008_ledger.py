"""What sums of runs are added up from, beside the entries, which are wide."""

from __future__ import annotations

from alembic import op

revision = "0008_ledger"
down_revision: str | None = "0007_settings"


def upgrade() -> None:
    op.create_index(
        "ix_ledger_entries_totals",
        "ledger_entries",
        (
            "run", "started_us", "kind", "model",
            "tokens_in", "tokens_out", "tokens_cached", "cost_micros", "duration_us",
        ),
    )  # fmt: skip
