"""What a server tells of conversations. All of it is checked for shape when it is read.

Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crucible_client.agent import TurnEvent
from crucible_client.reading import Reader

Format = Literal["markdown", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationInfo:
    """Its id is that of its session. `snippet` is what stands around the words that were looked for."""

    id: str
    title: str
    pinned: bool
    created_at: float
    updated_at: float
    turns: int
    state: str
    model: str
    snippet: str

    @classmethod
    def read(cls, told: Any) -> ConversationInfo:
        reader = Reader(told)
        return cls(
            id=reader.text("id"),
            title=reader.text("title"),
            pinned=reader.claim("pinned"),
            created_at=reader.number("created_at"),
            updated_at=reader.number("updated_at"),
            turns=reader.whole("turns"),
            state=reader.text("state"),
            model=reader.text("model"),
            snippet=reader.text("snippet"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The events of the newest turns, pieces of one text put together. Older turns are had with `before_turn`.

    A session's `events(after=last_event)` goes on where it ends. `open_turn` is the turn that is under way.
    """

    events: Sequence[TurnEvent]
    first_turn: int
    has_more: bool
    last_event: int
    open_turn: int | None
    state: str

    @classmethod
    def read(cls, told: Any) -> Transcript:
        reader = Reader(told)
        open_turn = reader.table_or_none("open_turn")
        return cls(
            events=tuple(_event(one) for one in reader.items("events")),
            first_turn=reader.whole("first_turn"),
            has_more=reader.claim("has_more"),
            last_event=reader.whole("last_event"),
            open_turn=None if open_turn is None else Reader(open_turn).whole("turn"),
            state=reader.text("state"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that waits for a prompt to go with. `media_type` is what its bytes look like."""

    id: str
    name: str
    size: int
    media_type: str

    @classmethod
    def read(cls, told: Any) -> Upload:
        reader = Reader(told)
        return cls(
            id=reader.text("id"),
            name=reader.text("name"),
            size=reader.whole("size"),
            media_type=reader.text("media_type"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a tool handed over. Name and type are as something in a sandbox said they were."""

    blob: str
    name: str
    media_type: str
    size: int
    turn: int
    call: str

    @classmethod
    def read(cls, told: Any) -> Artifact:
        reader = Reader(told)
        return cls(
            blob=reader.text("blob"),
            name=reader.text("name"),
            media_type=reader.text("media_type"),
            size=reader.whole("size"),
            turn=reader.whole("turn"),
            call=reader.text("call"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedChange:
    path: str
    why: str

    @classmethod
    def read(cls, told: Any) -> RefusedChange:
        reader = Reader(told)
        return cls(path=reader.text("path"), why=reader.text("why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was written to the server's own directory, and what was not."""

    applied: Sequence[str]
    refused: Sequence[RefusedChange]

    @classmethod
    def read(cls, told: Any) -> Applied:
        reader = Reader(told)
        return cls(
            applied=tuple(reader.texts("applied")),
            refused=tuple(RefusedChange.read(one) for one in reader.items("refused")),
        )


def upload_ids(attachments: Sequence[Upload | str]) -> list[str]:
    return [one if isinstance(one, str) else one.id for one in attachments]


def _event(told: Any) -> TurnEvent:
    """With `turn` and `at` among its data, as an event has them that is told live."""
    reader = Reader(told)
    turn = reader.whole("turn")
    return TurnEvent(
        number=reader.whole("number"),
        turn=turn,
        kind=reader.text("kind"),
        data={**reader.table("data"), "turn": turn, "at": reader.number("at")},
    )
