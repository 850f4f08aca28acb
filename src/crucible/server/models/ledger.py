"""What is told of recorded runs. Times are seconds since 1970, costs USD; null is a cost that nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from crucible.server.models.base import Told

if TYPE_CHECKING:
    from crucible.ledger.chain import Entry
    from crucible.ledger.reading import RunSummary
    from crucible.ledger.totals import Total
    from crucible.ledger.verifying import Verdict

RunState = Literal["idle", "busy", "waiting", "interrupted", "ended"]
MICRO = 1_000_000


class RunTold(Told):
    """`state` is that of its session, and `ended` where there is none any more."""

    id: str
    state: RunState
    opened_at: float
    last_at: float = Field(description="When its last step ended")
    entries: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float = Field(description="Without what nobody knows the price of")
    models: list[str]
    facts: dict[str, Any]

    @classmethod
    def of(cls, run: RunSummary, state: RunState) -> RunTold:
        return cls(
            id=run.id,
            state=state,
            opened_at=run.opened_us / MICRO,
            last_at=run.last_us / MICRO,
            entries=run.count,
            tokens_in=run.tokens_in,
            tokens_out=run.tokens_out,
            tokens_cached=run.tokens_cached,
            cost_usd=run.cost_micros / MICRO,
            models=list(run.models),
            facts=dict(run.facts),
        )


class EntryTold(Told):
    """One step. `input` and `output` name contents, null where it had none."""

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
    facts: dict[str, Any]
    previous: str
    hash: str

    @classmethod
    def of(cls, entry: Entry) -> EntryTold:
        same = (
            "number", "kind", "tokens_in", "tokens_out", "tokens_cached", "model", "sandbox", "image",
            "isolation", "exit_status", "input", "output", "previous", "hash",
        )  # fmt: skip
        cost = entry.cost_micros
        return cls(
            **{name: getattr(entry, name) for name in same},
            started_at=entry.started_us / MICRO,
            duration_s=entry.duration_us / MICRO,
            cost_usd=None if cost is None else cost / MICRO,
            facts=dict(entry.facts),
        )


class TotalTold(Told):
    """Of one day, one model, or both; empty is what it was not asked by."""

    day: str = Field(description="In UTC, like 2026-11-16")
    model: str
    runs: int
    steps: int
    model_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_usd: float
    unpriced: int = Field(description="Steps whose price nobody knows; `cost_usd` is without them")
    duration_s: float = Field(description="Of all steps together, also of those at the same time")

    @classmethod
    def of(cls, total: Total) -> TotalTold:
        same = (
            "day", "model", "runs", "steps", "model_calls", "tool_calls", "tokens_in", "tokens_out",
            "tokens_cached", "unpriced",
        )  # fmt: skip
        return cls(
            **{name: getattr(total, name) for name in same},
            cost_usd=total.cost_micros / MICRO,
            duration_s=total.duration_us / MICRO,
        )


class TotalsTold(Told):
    items: list[TotalTold]


class ManifestFinding(Told):
    problem: str
    entry: int | None = Field(description="The first it concerns; null for the record as a whole")
    detail: str


class VerdictTold(Told):
    """`is_whole` if nothing was found. Contents that were erased are no finding."""

    run: str
    count: int
    key: str
    is_whole: bool
    findings: list[ManifestFinding]
    kept: int
    erased: int
    absent: int = Field(description="Contents that an export without contents does not have")
    unfinished: int = Field(description="Contents said to be erased that are still there")
    head_behind: int

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictTold:
        return cls.model_validate(verdict, from_attributes=True)


class PublicKeyTold(Told):
    """What manifests of this server are checked with."""

    id: str
    pem: str
