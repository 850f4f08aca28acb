"""What a turn tells while it lives: numbered per session, kept, and read again from any number on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Kind = Literal[
    "turn-began",
    "text",
    "thinking",
    "retry",
    "call",
    "judged",
    "approval-asked",
    "approval-answered",
    "output",
    "result",
    "artifact",
    "object",
    "usage",
    "recalled",
    "remembered",
    "compacted",
    "checkpoint",
    "rewound",
    "retracted",
    "notice",
    "turn-ended",
]
# Events that are looked for by their kind: a store finds them without reading the others.
Marked = Literal["turn-began", "artifact", "retracted"]
MARKED: Final[frozenset[Kind]] = frozenset(get_args(Marked))
# What a turn ends as. `budget-spent` keeps the work so far.
End = Literal["done", "cancelled", "failed", "budget-spent", "too-many-steps", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`number` grows by one within a session, over all its turns. `data` is JSON."""

    number: int
    turn: int
    kind: Kind
    at: float
    data: Mapping[str, Any]
