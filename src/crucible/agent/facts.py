"""What the engine tells of sessions and turns: frozen values that the doors render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crucible.agent.events import End, Event
from crucible.agent.messages import ToolCall
from crucible.agent.models.base import Usage
from crucible.agent.options import SessionOptions
from crucible.agent.workplace import Place

MOST_TURNS = 200
Intent = Literal["chat", "agent", "code"]
State = Literal["idle", "busy", "waiting", "interrupted"]
Decision = Literal["once", "always", "edit", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """`waiting` is a turn that waits for an approval; `interrupted` one that can be resumed."""

    id: str
    options: SessionOptions
    state: State
    created_at: float
    used_at: float
    turns: int
    messages: int
    last_event: int
    usage: Usage
    cost_usd: float
    is_cost_whole: bool
    place: Place | None = None
    approvals: tuple[str, ...] = ()
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a turn came to. `cost_usd` is what is known of it: with `is_cost_whole` false, a price was missing.

    `value` is the object that was asked for, None without one. `error` has the fields of the error that ended it.
    """

    session: str
    turn: int
    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    cost_usd: float
    is_cost_whole: bool
    end: End
    intent: Intent
    model: str
    value: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """`used_tokens` is exact as of the model's last answer, and estimated for what came after it."""

    model: str
    used_tokens: int
    limit_tokens: int
    messages: int
    pinned: int
    compacts_at: int

    @property
    def share(self) -> float:
        return self.used_tokens / self.limit_tokens if self.limit_tokens else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A risk that inspection found."""

    rule: str
    severity: str
    line: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A call that waits for a person: what would run, where, and the risk found."""

    id: str
    session: str
    turn: int
    call: str
    tool: str
    subject: str
    arguments: Mapping[str, Any]
    where: str
    reason: str
    findings: tuple[Finding, ...]
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """`arguments` replace the call's own where it is edited."""

    decision: Decision
    by: str
    arguments: Mapping[str, Any] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """`waited_s` and `ran_s` are sums over what is done."""

    name: str
    priority: int
    limit: int
    running: int
    waiting: int
    done: int
    waited_s: float
    longest_wait_s: float
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    sessions: int
    busy: int
    waiting: int
    approvals: int
    lanes: tuple[LaneFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """What a user gives with a prompt: a file of the host whose name is one that a directory takes."""

    name: str
    media_type: str
    size: int
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFacts:
    """What a tool handed over. Name and type are as something in a sandbox said they were."""

    blob: str
    name: str
    media_type: str
    size: int
    turn: int
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A turn under way; `after` is the event before its first."""

    turn: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """`first_turn` is the oldest that is shown, 0 without any; `has_more` tells whether there are older ones."""

    events: tuple[Event, ...]
    first_turn: int
    has_more: bool
    last_event: int
    open_turn: Following | None
    state: State
