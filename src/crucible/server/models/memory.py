"""What is asked and told of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from crucible.server.models.base import Asked, Told

if TYPE_CHECKING:
    from crucible.memory.facts import Fact
    from crucible.memory.recalling import Recalled
    from crucible.memory.summaries import ConversationSummary

Kind = Literal["fact", "preference", "goal", "constraint"]
# Longer than what is kept, so that memory itself can say how long that is.
Words = Annotated[str, Field(min_length=1, max_length=4000)]
SessionName = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")]


class FactWanted(Asked):
    text: Words
    kind: Kind | None = Field(default=None, description="As it reads, if it is not said")
    pinned: bool = False


class FactChanges(Asked):
    """What is missing stays as it is."""

    text: Words | None = None
    kind: Kind | None = None
    pinned: bool | None = None


class SourceTold(Told):
    """Null where it was typed in as a fact."""

    session: str | None
    turn: int | None
    quote: str | None


class FactTold(Told):
    id: str
    kind: Kind
    text: str
    attribute: str
    state: Literal["active", "superseded", "expired"]
    superseded_by: str | None
    pinned: bool
    confidence: float
    source: SourceTold
    created_at: float
    updated_at: float
    recalled_at: float | None
    recalls: int
    expires_at: float | None

    @classmethod
    def of(cls, fact: Fact) -> FactTold:
        same = (
            "id", "kind", "text", "attribute", "state", "confidence", "created_at", "updated_at",
            "recalled_at", "recalls", "expires_at",
        )  # fmt: skip
        source = fact.source
        return cls(
            **{name: getattr(fact, name) for name in same},
            superseded_by=fact.superseded_by or None,
            pinned=fact.is_pinned,
            source=SourceTold(
                session=source.session or None,
                turn=source.turn if source.session else None,
                quote=source.quote or None,
            ),
        )


class RememberedTold(Told):
    action: Literal["added", "replaced", "confirmed", "ended"]
    fact: FactTold
    replaces: list[FactTold]


class RecalledFact(Told):
    fact: FactTold
    reason: str = Field(description="Why it was found, in words")


class RecalledTold(Told):
    """`text` is what a prompt would be given, and has so many `tokens`; `notice` says what was not done."""

    items: list[RecalledFact]
    text: str
    tokens: int
    notice: str

    @classmethod
    def of(cls, recalled: Recalled) -> RecalledTold:
        return cls(
            items=[
                RecalledFact(fact=FactTold.of(one.fact), reason=str(one.reason))
                for one in recalled.items
            ],
            text=recalled.text,
            tokens=recalled.tokens,
            notice=recalled.notice,
        )


class Forgotten(Told):
    facts: int


class MemorySwitch(Asked):
    on: bool
    session: SessionName = Field(default="", description="For one session only")


class MemorySwitched(Told):
    on: bool


class SummaryTold(Told):
    """`text` stands for the first `covers` messages of a session, but for those that are pinned."""

    session: str
    covers: int
    text: str
    made_at: float

    @classmethod
    def of(cls, summary: ConversationSummary) -> SummaryTold:
        return cls.model_validate(summary, from_attributes=True)
