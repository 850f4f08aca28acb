"""How a database of an earlier Crucible becomes one of this: `migrations/versions/`, a file for each room, in order.

What has been released is never changed; a room that needs more adds a file at the end, here and there.
"""

from __future__ import annotations

from pathlib import Path

CHAIN = (
    "0001_ledger",
    "0002_budgets",
    "0003_memory",
    "0004_sessions",
    "0005_accounts",
    "0006_conversations",
    "0007_settings",
    "0008_ledger",
)
HEAD = CHAIN[-1]
DIRECTORY = Path(__file__).with_name("migrations")
