"""What is told of conversations: frozen values that the doors render. Loads no database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LONGEST_QUERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """`id` is that of its session; `deleted_at` is None unless it waits to be gone for good."""

    id: str
    user: str
    title: str
    is_pinned: bool
    model: str
    created_at: float
    updated_at: float
    deleted_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`snippet` is what stands around the words that were looked for."""

    conversation: Conversation
    snippet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a page of the list ends."""

    is_pinned: bool
    updated_at: float
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file of a user; `conversation` is empty until a turn has used it. `media_type` is what its bytes look like."""

    id: str
    user: str
    conversation: str
    name: str
    media_type: str
    size: int
    created_at: float
    path: Path
