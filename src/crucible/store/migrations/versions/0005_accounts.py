"""Accounts."""

from __future__ import annotations

revision = "0005_accounts"
down_revision: str | None = "0004_sessions"


def upgrade() -> None:
    pass
