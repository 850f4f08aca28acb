"""What a server tells of recorded runs, of memory and of budgets. All of it is checked for shape when it is read.

Times are seconds since 1970, costs USD; None is a cost that nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crucible_client.reading import Reader

By = Literal["day", "model", "day-model"]
FactKind = Literal["fact", "preference", "goal", "constraint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """`state` is that of its session, and `ended` where there is none any more."""

    id: str
    state: str
    opened_at: float
    last_at: float
    entries: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float
    models: tuple[str, ...]

    @classmethod
    def read(cls, told: Any) -> RunInfo:
        reader = Reader(told)
        return cls(
            id=reader.text("id"),
            state=reader.text("state"),
            opened_at=reader.number("opened_at"),
            last_at=reader.number("last_at"),
            entries=reader.whole("entries"),
            tokens_in=reader.whole("tokens_in"),
            tokens_out=reader.whole("tokens_out"),
            tokens_cached=reader.whole("tokens_cached"),
            cost_usd=reader.number("cost_usd"),
            models=tuple(reader.texts("models")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One step. `input` and `output` name contents, for `content`; None where it had none."""

    number: int
    kind: str
    started_at: float
    duration_s: float
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float | None
    model: str
    sandbox: str
    image: str
    isolation: str
    exit_status: int | None
    input: str | None
    output: str | None
    facts: Mapping[str, Any]
    hash: str

    @classmethod
    def read(cls, told: Any) -> RunEntry:
        reader = Reader(told)
        return cls(
            number=reader.whole("number"),
            kind=reader.text("kind"),
            started_at=reader.number("started_at"),
            duration_s=reader.number("duration_s"),
            tokens_in=reader.whole("tokens_in"),
            tokens_out=reader.whole("tokens_out"),
            tokens_cached=reader.whole("tokens_cached"),
            cost_usd=reader.number_or_none("cost_usd"),
            model=reader.text("model"),
            sandbox=reader.text("sandbox"),
            image=reader.text("image"),
            isolation=reader.text("isolation"),
            exit_status=reader.whole_or_none("exit_status"),
            input=reader.text_or_none("input"),
            output=reader.text_or_none("output"),
            facts=reader.table("facts"),
            hash=reader.text("hash"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotal:
    """Of one day (in UTC), one model, or both; empty is what it was not asked by.

    `cost_usd` is without the `unpriced` steps.
    """

    day: str
    model: str
    runs: int
    steps: int
    model_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float
    unpriced: int
    duration_s: float

    @classmethod
    def read(cls, told: Any) -> RunTotal:
        reader = Reader(told)
        return cls(
            day=reader.text("day"),
            model=reader.text("model"),
            runs=reader.whole("runs"),
            steps=reader.whole("steps"),
            model_calls=reader.whole("model_calls"),
            tool_calls=reader.whole("tool_calls"),
            tokens_in=reader.whole("tokens_in"),
            tokens_out=reader.whole("tokens_out"),
            tokens_cached=reader.whole("tokens_cached"),
            cost_usd=reader.number("cost_usd"),
            unpriced=reader.whole("unpriced"),
            duration_s=reader.number("duration_s"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a record is what was signed. Each finding has `problem`, `entry` and `detail`."""

    run: str
    count: int
    key: str
    is_whole: bool
    findings: tuple[Mapping[str, Any], ...]
    kept: int
    erased: int
    absent: int

    @classmethod
    def read(cls, told: Any) -> Verdict:
        reader = Reader(told)
        return cls(
            run=reader.text("run"),
            count=reader.whole("count"),
            key=reader.text("key"),
            is_whole=reader.claim("is_whole"),
            findings=tuple(reader.items("findings")),
            kept=reader.whole("kept"),
            erased=reader.whole("erased"),
            absent=reader.whole("absent"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One statement about a user. `source` has `session`, `turn` and `quote`, each None where it was typed in."""

    id: str
    kind: str
    text: str
    state: str
    superseded_by: str | None
    pinned: bool
    confidence: float
    source: Mapping[str, Any]
    created_at: float
    updated_at: float
    expires_at: float | None

    @classmethod
    def read(cls, told: Any) -> Fact:
        reader = Reader(told)
        return cls(
            id=reader.text("id"),
            kind=reader.text("kind"),
            text=reader.text("text"),
            state=reader.text("state"),
            superseded_by=reader.text_or_none("superseded_by"),
            pinned=reader.claim("pinned"),
            confidence=reader.number("confidence"),
            source=reader.table("source"),
            created_at=reader.number("created_at"),
            updated_at=reader.number("updated_at"),
            expires_at=reader.number_or_none("expires_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """`items` are facts, each with the reason in words; `text` is what a prompt would be given of them."""

    items: tuple[tuple[Fact, str], ...]
    text: str
    tokens: int
    notice: str

    @classmethod
    def read(cls, told: Any) -> Recalled:
        reader = Reader(told)
        items = [Reader(one) for one in reader.items("items")]
        return cls(
            items=tuple((Fact.read(one.table("fact")), one.text("reason")) for one in items),
            text=reader.text("text"),
            tokens=reader.whole("tokens"),
            notice=reader.text("notice"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """`action` is `added`, `replaced`, `confirmed` or `ended`; `replaces` is what does not hold any more."""

    action: str
    fact: Fact
    replaces: tuple[Fact, ...]

    @classmethod
    def read(cls, told: Any) -> Remembered:
        reader = Reader(told)
        return cls(
            action=reader.text("action"),
            fact=Fact.read(reader.table("fact")),
            replaces=tuple(Fact.read(one) for one in reader.items("replaces")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """`text` stands for the first `covers` messages of a session."""

    session: str
    covers: int
    text: str
    made_at: float

    @classmethod
    def read(cls, told: Any) -> Summary:
        reader = Reader(told)
        return cls(
            session=reader.text("session"),
            covers=reader.whole("covers"),
            text=reader.text("text"),
            made_at=reader.number("made_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """How one limit stands. What is reserved counts as if it were spent; `resets_at` None is never."""

    scope: str
    measure: str
    period: str
    limit: float
    spent: float
    reserved: float
    remaining: float
    resets_at: float | None

    @classmethod
    def read(cls, told: Any) -> BudgetLimit:
        reader = Reader(told)
        return cls(
            scope=reader.text("scope"),
            measure=reader.text("measure"),
            period=reader.text("period"),
            limit=reader.number("limit"),
            spent=reader.number("spent"),
            reserved=reader.number("reserved"),
            remaining=reader.number("remaining"),
            resets_at=reader.number_or_none("resets_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`spent` and `reserved` have `tokens`, `usd`, `sandbox_seconds`, `iterations` and `calls`, of all time."""

    scope: str
    plan: str
    spent: Mapping[str, float]
    reserved: Mapping[str, float]
    limits: tuple[BudgetLimit, ...]

    @classmethod
    def read(cls, told: Any) -> Budget:
        reader = Reader(told)
        return cls(
            scope=reader.text("scope"),
            plan=reader.text("plan"),
            spent=reader.table("spent"),
            reserved=reader.table("reserved"),
            limits=tuple(BudgetLimit.read(one) for one in reader.items("limits")),
        )
