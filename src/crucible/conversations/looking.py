"""Whether there is anything to clean up, found out without loading a database layer."""

from __future__ import annotations

from pathlib import Path

from crucible.store.glancing import may_have

_DELETED = "SELECT 1 FROM conversations WHERE deleted_at IS NOT NULL LIMIT 1"
_UNUSED = "SELECT 1 FROM conversation_uploads WHERE conversation = '' LIMIT 1"


def may_have_leftovers(home: Path, database: str = "") -> bool:
    """Conversations that were deleted, also those that can still be had back, and files that no turn has used."""
    is_deleted = may_have(home, database, table="conversations", query=_DELETED)
    return is_deleted or may_have(home, database, table="conversation_uploads", query=_UNUSED)
