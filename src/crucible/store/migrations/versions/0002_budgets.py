"""Plans, and what was spent and is reserved."""

from __future__ import annotations

revision = "0002_budgets"
down_revision: str | None = "0001_ledger"


def upgrade() -> None:
    pass
