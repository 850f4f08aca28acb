"""What is remembered of users."""

from __future__ import annotations

revision = "0003_memory"
down_revision: str | None = "0002_budgets"


def upgrade() -> None:
    pass
