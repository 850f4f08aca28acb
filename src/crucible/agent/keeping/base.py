"""What is kept of a session, and what a place to keep it must be able to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from crucible.agent.events import End, Event, Marked
from crucible.agent.facts import Approval, Intent
from crucible.agent.messages import Message
from crucible.agent.models.base import Usage
from crucible.agent.options import SessionOptions
from crucible.agent.workplace import Place
from crucible.errors import CrucibleError, StateDamaged


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A turn under way, as it must be known to go on with it in another process.

    `schema` is that of the object that is wanted, None for text; `began_with` is how many messages there were before,
    `step_event` the last event before the calls that are open now: other calls may have had the same ids.
    """

    number: int
    intent: Intent
    began_at: float
    began_with: int
    step_event: int = 0
    iterations: int = 0
    repairs: int = 0
    max_repairs: int = 2
    schema_name: str = ""
    schema: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    is_cost_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The state before a step: how many messages there were, and the checkpoint of the sandbox then."""

    step: int
    messages: int
    checkpoint: str
    taken_at: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """The head of a session: everything but its messages and events. `left` is a last turn that was not done."""

    id: str
    options: SessionOptions
    created_at: float
    used_at: float
    parent: str = ""
    turns: int = 0
    steps: int = 0
    turn: OpenTurn | None = None
    left: OpenTurn | None = None
    last_end: End | None = None
    approvals: tuple[Approval, ...] = ()
    moments: tuple[Moment, ...] = ()
    place: Place | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    is_cost_whole: bool = True
    context_tokens: int = 0
    context_messages: int = 0
    messages: int = 0
    last_event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    record: SessionRecord
    messages: tuple[Message, ...]
    last_event: int


class SessionStore(Protocol):
    """Each verb is whole or not at all, and safe to repeat. Raises CrucibleError where it cannot keep its word.

    Appending costs what is appended, whatever the length of the session. One engine writes a session at a time.
    """

    async def save(self, record: SessionRecord) -> None:
        """The head of a session, new or changed."""
        ...

    async def append(
        self,
        record: SessionRecord,
        *,
        first: int,
        messages: Sequence[Message],
        events: Sequence[Event],
    ) -> None:
        """Messages from position `first` on, events by their numbers, and the head as it is then."""
        ...

    async def rewrite(self, record: SessionRecord, messages: Sequence[Message]) -> None:
        """All messages anew: after compacting, clearing or rewinding."""
        ...

    async def redact(
        self, session: str, *, messages: Mapping[int, Message], events: Sequence[Event]
    ) -> None:
        """These in the places of those that are there, which no file of this store has afterwards. The head stays."""
        ...

    async def load(self, session: str) -> Kept:
        """Raises SessionMissing."""
        ...

    async def events(self, session: str, *, after: int, limit: int) -> tuple[Event, ...]: ...

    async def marks(
        self, session: str, kind: Marked, *, before_turn: int | None = None, limit: int
    ) -> tuple[Event, ...]:
        """Events of that kind, the newest first; of turns before that one, if one is named.

        Costs what is found, whatever the length of the session.
        """
        ...

    async def delete(self, session: str) -> None:
        """Nothing of it is left. What is not there is deleted already."""
        ...

    async def list(self) -> tuple[SessionRecord, ...]:
        """In the order in which they were created."""
        ...

    async def exists(self, session: str) -> bool: ...

    async def close(self) -> None: ...


def record_to_json(record: SessionRecord) -> dict[str, Any]:
    return asdict(record)


def record_from_json(value: Any) -> SessionRecord:
    """Raises StateDamaged for what `record_to_json` never wrote."""
    from pydantic import ValidationError

    try:
        return _records().validate_python(value)  # type: ignore[no-any-return]
    except (ValidationError, CrucibleError) as error:
        raise StateDamaged(f"A kept session cannot be read: {str(error)[:300]}") from error


def event_to_json(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "turn": event.turn,
        "kind": event.kind,
        "at": event.at,
        "data": dict(event.data),
    }


def event_from_json(value: Any) -> Event:
    try:
        return Event(
            number=int(value["number"]),
            turn=int(value["turn"]),
            kind=value["kind"],
            at=float(value["at"]),
            data=dict(value["data"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateDamaged(f"A kept event cannot be read: {error!r}") from error


_adapter: Any = None


def _records() -> Any:
    global _adapter
    if _adapter is None:
        from pydantic import TypeAdapter

        _adapter = TypeAdapter(SessionRecord)
    return _adapter
