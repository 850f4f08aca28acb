"""Conversations as they are asked for and told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from crucible.agent.events import Event
from crucible.agent.facts import ArtifactFacts, Intent, SessionFacts, Transcript
from crucible.conversations.facts import Found, Upload
from crucible.conversations.titles import LONGEST_TITLE
from crucible.server.models.agent import Prompt, SessionId, SessionWanted
from crucible.server.models.base import Asked, Told

LARGEST_TURN = 1 << 31
Title = Annotated[str, Field(max_length=4 * LONGEST_TITLE)]
MOST_ATTACHMENTS = 32
# A prompt may be edited again and again, with more files each time.
MOST_KEPT = 256
UploadIds = Annotated[
    list[Annotated[str, Field(pattern=r"^up-[0-9a-f]{32}$")]], Field(max_length=MOST_ATTACHMENTS)
]
FileNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=MOST_KEPT)
]
TurnNumber = Annotated[int, Field(ge=1, lt=LARGEST_TURN)]


class ConversationWanted(SessionWanted):
    """A conversation, and the session behind it. Without a title it is called after its first prompt."""


class ConversationChanges(Asked):
    title: Title | None = None
    pinned: bool | None = None


class ConversationTold(Told):
    """`snippet` is what stands around the words that were looked for."""

    id: str
    title: str
    pinned: bool
    created_at: float
    updated_at: float
    turns: int
    state: Literal["idle", "busy", "waiting", "interrupted"]
    model: str
    snippet: str = ""

    @classmethod
    def of(cls, found: Found, facts: SessionFacts | None) -> ConversationTold:
        one = found.conversation
        return cls(
            id=one.id,
            title=one.title,
            pinned=one.is_pinned,
            created_at=one.created_at,
            updated_at=one.updated_at,
            turns=facts.turns if facts else 0,
            state=facts.state if facts else "idle",
            model=one.model or (facts.options.models.get("agent", "") if facts else ""),
            snippet=found.snippet,
        )


class EventTold(Told):
    """As the session's stream of events tells it; `number` is that of the last piece where several are one here."""

    number: int
    turn: int
    kind: str
    at: float
    data: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> EventTold:
        return cls(
            number=event.number,
            turn=event.turn,
            kind=event.kind,
            at=event.at,
            data=dict(event.data),
        )


class OpenTurnTold(Told):
    """`after` is the event before its first."""

    turn: int
    after: int


class TranscriptTold(Told):
    """Whoever follows the session's events after `last_event` misses none and sees none twice."""

    events: list[EventTold]
    first_turn: int = Field(description="The oldest turn that is shown, 0 without any")
    has_more: bool = Field(description="Older turns are had with `before_turn`")
    last_event: int
    open_turn: OpenTurnTold | None
    state: Literal["idle", "busy", "waiting", "interrupted"]

    @classmethod
    def of(cls, transcript: Transcript) -> TranscriptTold:
        open_turn = transcript.open_turn
        return cls(
            events=[EventTold.of(one) for one in transcript.events],
            first_turn=transcript.first_turn,
            has_more=transcript.has_more,
            last_event=transcript.last_event,
            open_turn=None
            if open_turn is None
            else OpenTurnTold(turn=open_turn.turn, after=open_turn.after),
            state=transcript.state,
        )


class EditWanted(Asked):
    """`kept` names files that came with the prompt and come with its new words, as they are in the workspace now."""

    turn: TurnNumber
    prompt: Prompt
    attachments: UploadIds = []
    kept: FileNames = []


class BranchWanted(Asked):
    turn: TurnNumber


class UploadTold(Told):
    id: str
    name: str
    size: int
    media_type: str

    @classmethod
    def of(cls, upload: Upload) -> UploadTold:
        return cls(id=upload.id, name=upload.name, size=upload.size, media_type=upload.media_type)


class ArtifactTold(Told):
    """Name and type are as something in a sandbox said they were."""

    blob: str
    name: str
    media_type: str
    size: int
    turn: int
    call: str

    @classmethod
    def of(cls, facts: ArtifactFacts) -> ArtifactTold:
        return cls.model_validate(facts, from_attributes=True)


class ArtifactList(Told):
    items: list[ArtifactTold]


class ChatWanted(Asked):
    """Without a conversation a new one is made, as `options` say."""

    conversation: SessionId | None = None
    prompt: Prompt
    attachments: UploadIds = []
    intent: Intent | None = None
    options: SessionWanted | None = None


class ChatTold(Told):
    """A turn under way: `after` is the event before its first."""

    conversation: str
    turn: int
    after: int
