"""Sessions, their messages and pending approvals."""

from __future__ import annotations

revision = "0004_sessions"
down_revision: str | None = "0003_memory"


def upgrade() -> None:
    pass
