"""What goes wrong with conversations and the files that are given to them."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class ConversationError(CrucibleError):
    """Something is wrong with a conversation."""

    code = "conversation"


class ConversationMissing(ConversationError, Refused):
    """There is none of that id, or it is another user's, or it was deleted."""

    code = "conversation-missing"

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"There is no conversation {conversation[:64]!r}",
            hint="List yours; one that was deleted can be restored for ten minutes",
        )
