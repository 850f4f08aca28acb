"""Runs and their entries."""

from __future__ import annotations

revision = "0001_ledger"
down_revision: str | None = None


def upgrade() -> None:
    pass
