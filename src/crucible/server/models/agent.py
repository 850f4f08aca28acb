"""Sessions of the agent as they are asked for and told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from crucible.agent.facts import (
    Answer,
    Approval,
    ContextUsage,
    Health,
    Intent,
    LaneFacts,
    SessionFacts,
)
from crucible.agent.messages import Message, to_json
from crucible.agent.models.base import Usage
from crucible.server.models.base import Asked, Told, Variables

LONGEST_PROMPT = 1 << 20
LARGEST_SCHEMA = 1 << 18

Thinking = Literal["off", "low", "medium", "high"]
ModelName = Annotated[str, Field(max_length=256)]
Pattern = Annotated[str, Field(max_length=4096)]
Patterns = Annotated[list[Pattern], Field(max_length=256)]
Prompt = Annotated[str, Field(min_length=1, max_length=LONGEST_PROMPT)]
SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
JsonSchema = Annotated[
    dict[str, JsonValue], Field(description="A JSON Schema of an object", max_length=1000)
]


class ModelsWanted(Asked):
    """Each as `provider:name`; what is missing is by the settings."""

    agent: ModelName | None = None
    chat: ModelName | None = None
    memory: ModelName | None = None


class PolicyWanted(Asked):
    """Patterns such as `bash(git push*)`. Deny wins over ask, ask over allow."""

    allow: Patterns = []
    ask: Patterns = []
    deny: Patterns = []


class BudgetWanted(Asked):
    """What the session may spend in all."""

    tokens: Annotated[int, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    sandbox_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    iterations: Annotated[int, Field(ge=0)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None


class SandboxWanted(Asked):
    """The sandbox that is opened when it is first needed. A directory of the host is copied, and needs `admin`."""

    image: Annotated[str, Field(max_length=1024)] = ""
    network: Literal["none", "full"] = "none"
    hosts: Annotated[list[Annotated[str, Field(max_length=253)]], Field(max_length=256)] = []
    directory: Annotated[str, Field(max_length=4096)] = ""
    memory_mib: Annotated[int, Field(ge=0)] = 0
    cpus: Annotated[int, Field(ge=0)] = 0
    disk_mib: Annotated[int, Field(ge=0)] = 0
    environment: Variables = {}
    secrets: Annotated[list[str], Field(max_length=32)] = Field(
        default=[],
        description="NAME:HOST[:HEADER]: a variable of the server whose value requests to that host are given. "
        "Never a value; needs `admin`",
    )


class CheckpointsWanted(Asked):
    """A snapshot of the sandbox before each step, of which the newest are kept."""

    is_on: bool = False
    keep: Annotated[int, Field(ge=1, le=64)] = 4


class SessionWanted(Asked):
    """`tools`, `skills` and `mcp` are names or patterns of what it may use; null is everything."""

    title: Annotated[str, Field(max_length=200)] = ""
    labels: Variables = {}
    system: Annotated[str, Field(max_length=200_000)] = ""
    models: ModelsWanted = ModelsWanted()
    thinking: Thinking = "off"
    tools: Patterns | None = None
    skills: Patterns | None = None
    mcp: Patterns | None = None
    policy: PolicyWanted = PolicyWanted()
    budget: BudgetWanted = BudgetWanted()
    sandbox: SandboxWanted = SandboxWanted()
    checkpoints: CheckpointsWanted = CheckpointsWanted()
    memory: bool = True
    max_iterations: Annotated[int, Field(ge=1, le=1000)] = 16
    approval_timeout_s: Annotated[float, Field(gt=0, le=604_800)] = 600.0


class SessionChanges(Asked):
    """What is not named stays as it is. The sandbox cannot be changed once it was opened."""

    title: Annotated[str, Field(max_length=200)] | None = None
    labels: Variables | None = None
    system: Annotated[str, Field(max_length=200_000)] | None = None
    models: ModelsWanted | None = None
    thinking: Thinking | None = None
    tools: Patterns | None = None
    skills: Patterns | None = None
    mcp: Patterns | None = None
    policy: PolicyWanted | None = None
    budget: BudgetWanted | None = None
    checkpoints: CheckpointsWanted | None = None
    memory: bool | None = None
    max_iterations: Annotated[int, Field(ge=1, le=1000)] | None = None
    approval_timeout_s: Annotated[float, Field(gt=0, le=604_800)] | None = None


class PromptGiven(Asked):
    """Without an intent the prompt is looked at: `chat` answers, `agent` uses tools, `code` writes a program."""

    prompt: Prompt
    intent: Intent | None = None


class ObjectWanted(Asked):
    """An answer that fits the schema; what does not fit goes back to the model with what is wrong with it."""

    prompt: Prompt
    schema_: JsonSchema = Field(alias="schema")
    max_repairs: Annotated[int, Field(ge=0, le=8)] = 2


class ApprovalGiven(Asked):
    """`edit` runs it with these arguments instead."""

    decision: Literal["once", "always", "edit", "deny"]
    arguments: dict[str, JsonValue] | None = None
    note: Annotated[str, Field(max_length=2000)] = ""


class StepsBack(Asked):
    steps: Annotated[int, Field(ge=1, le=1000)] = 1


class PinWanted(Asked):
    """`message` counts the history from 0."""

    message: Annotated[int, Field(ge=0)]
    pinned: bool = True


class UsageTold(Told):
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int

    @classmethod
    def of(cls, usage: Usage) -> UsageTold:
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )


class PlaceTold(Told):
    """The sandbox, with the boundary that is really there."""

    sandbox: str
    name: str
    image: str
    image_digest: str
    isolation: str
    backend: str


class SessionTold(Told):
    """`interrupted` is a session whose turn was cut short and can be resumed."""

    id: str
    state: Literal["idle", "busy", "waiting", "interrupted"]
    title: str
    labels: dict[str, str]
    system: str
    models: dict[str, str]
    thinking: str
    memory: bool
    max_iterations: int
    created_at: float
    used_at: float
    turns: int
    messages: int
    last_event: int
    usage: UsageTold
    cost_usd: float
    is_cost_whole: bool = Field(description="False where the price of a model is not known")
    place: PlaceTold | None
    approvals: list[str]
    parent: str

    @classmethod
    def of(cls, facts: SessionFacts) -> SessionTold:
        options = facts.options
        return cls(
            id=facts.id,
            state=facts.state,
            title=options.title,
            labels=dict(options.labels),
            system=options.system,
            models={str(purpose): name for purpose, name in options.models.items()},
            thinking=options.thinking,
            memory=options.memory,
            max_iterations=options.max_iterations,
            created_at=facts.created_at,
            used_at=facts.used_at,
            turns=facts.turns,
            messages=facts.messages,
            last_event=facts.last_event,
            usage=UsageTold.of(facts.usage),
            cost_usd=facts.cost_usd,
            is_cost_whole=facts.is_cost_whole,
            place=None
            if facts.place is None
            else PlaceTold.model_validate(facts.place, from_attributes=True),
            approvals=list(facts.approvals),
            parent=facts.parent,
        )


class CallTold(Told):
    id: str
    name: str
    arguments: str


class AnswerTold(Told):
    """`end` is `done` unless something stopped the turn; `error` says what."""

    session: str
    turn: int
    text: str
    calls: list[CallTold]
    usage: UsageTold
    cost_usd: float
    is_cost_whole: bool
    end: str
    intent: str
    model: str
    value: JsonValue = Field(default=None, description="The object that was asked for")
    error: dict[str, Any] = {}

    @classmethod
    def of(cls, answer: Answer) -> AnswerTold:
        return cls(
            session=answer.session,
            turn=answer.turn,
            text=answer.text,
            calls=[
                CallTold(id=call.id, name=call.name, arguments=call.arguments)
                for call in answer.calls
            ],
            usage=UsageTold.of(answer.usage),
            cost_usd=answer.cost_usd,
            is_cost_whole=answer.is_cost_whole,
            end=answer.end,
            intent=answer.intent,
            model=answer.model,
            value=answer.value,
            error=dict(answer.error),
        )


class TurnTold(Told):
    """A turn under way: `after` is the event before its first."""

    session: str
    turn: int
    after: int


class HistoryTold(Told):
    """Messages from the oldest on, as they are kept."""

    items: list[dict[str, Any]]

    @classmethod
    def of(cls, messages: tuple[Message, ...]) -> HistoryTold:
        return cls(items=[to_json(one) for one in messages])


class ContextTold(Told):
    model: str
    used_tokens: int
    limit_tokens: int
    share: float
    messages: int
    pinned: int
    compacts_at: int = Field(description="How many tokens make it compact by itself")

    @classmethod
    def of(cls, usage: ContextUsage) -> ContextTold:
        return cls(
            model=usage.model,
            used_tokens=usage.used_tokens,
            limit_tokens=usage.limit_tokens,
            share=usage.share,
            messages=usage.messages,
            pinned=usage.pinned,
            compacts_at=usage.compacts_at,
        )


class FindingTold(Told):
    rule: str
    severity: str
    line: int
    why: str


class ApprovalTold(Told):
    """A call that waits for a person: what would run, where, and the risk found."""

    id: str
    session: str
    turn: int
    call: str
    tool: str
    subject: str
    arguments: dict[str, Any]
    where: str
    reason: str
    findings: list[FindingTold]
    asked_at: float
    expires_at: float

    @classmethod
    def of(cls, approval: Approval) -> ApprovalTold:
        return cls(
            id=approval.id,
            session=approval.session,
            turn=approval.turn,
            call=approval.call,
            tool=approval.tool,
            subject=approval.subject,
            arguments=dict(approval.arguments),
            where=approval.where,
            reason=approval.reason,
            findings=[
                FindingTold.model_validate(one, from_attributes=True) for one in approval.findings
            ],
            asked_at=approval.asked_at,
            expires_at=approval.expires_at,
        )


class LaneTold(Told):
    name: str
    priority: int
    limit: int
    running: int
    waiting: int
    done: int
    waited_s: float
    longest_wait_s: float
    ran_s: float

    @classmethod
    def of(cls, lane: LaneFacts) -> LaneTold:
        return cls.model_validate(lane, from_attributes=True)


class HealthTold(Told):
    sessions: int
    busy: int
    waiting: int
    approvals: int
    lanes: list[LaneTold]

    @classmethod
    def of(cls, health: Health) -> HealthTold:
        return cls(
            sessions=health.sessions,
            busy=health.busy,
            waiting=health.waiting,
            approvals=health.approvals,
            lanes=[LaneTold.of(lane) for lane in health.lanes],
        )
