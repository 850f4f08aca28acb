"""What the engine needs of others, each in the fewest verbs, and what stands in where there is nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from crucible.agent.facts import Finding
from crucible.agent.models.base import ModelRef, Models, Usage
from crucible.agent.options import Limits, PolicyRules, SessionOptions
from crucible.agent.tools.base import Tool, Use
from crucible.agent.workplace import Place, Workplace

StepKind = Literal[
    "session", "prompt", "model", "model-failed", "budget", "tool", "artifact", "approval", "policy", "hook", "memory",
    "turn", "configured", "rewound", "cleared", "compacted", "pinned", "retracted", "attached",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry of the ledger. `input` and `output` are contents, kept apart where they can be erased.

    `facts` stay for good: what somebody wrote or a program printed does not belong there.
    """

    session: str
    user: str
    turn: int
    kind: StepKind
    name: str
    began_at: float
    ended_at: float
    input: bytes = b""
    output: bytes = b""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    place: Place | None = None
    exit_status: int | None = None
    is_error: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class Recorder(Protocol):
    async def record(self, *steps: Step) -> str:
        """All of them or none. The name of the blob that has the last one's output, empty without one."""
        ...

    async def blob(self, session: str, name: str) -> bytes | None:
        """None where it was erased or never was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MostOf:
    """What a model counts at most if it is the one that answers a call."""

    model: ModelRef
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The worst that is about to be spent. Of `models`, any one may come to answer."""

    session: str
    user: str
    limits: Limits
    models: tuple[MostOf, ...] = ()
    sandbox_s: float = 0.0
    iterations: int = 0
    calls: int = 0


class Hold(Protocol):
    """What is reserved until it is known what was really spent. Settled once; settling it again does nothing."""

    async def settle(
        self,
        *,
        usage: Usage | None = None,
        model: ModelRef | None = None,
        sandbox_s: float = 0.0,
        iterations: int = 0,
        calls: int = 0,
    ) -> float | None:
        """What it cost in USD, by the price of the model that answered; None without a known price."""
        ...

    async def settle_at_worst(self, model: ModelRef) -> None:
        """Nobody will tell what was spent: all that was set aside for this model."""
        ...


class Purse(Protocol):
    async def reserve(self, spend: Spend) -> Hold:
        """Raises BudgetSpent, and then nothing is reserved."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A fact that the model is told, and why it was thought to matter."""

    id: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """`text` is for the prompt, empty without anything to say."""

    text: str = ""
    facts: tuple[Recalled, ...] = ()


class Asks(Protocol):
    """One question to a model, answered by an object that should fit the schema. It is not trusted to."""

    async def ask(
        self, *, system: str, prompt: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """`facts` are the texts of what is new; `notice` is for the user, empty if all went well."""

    facts: tuple[str, ...] = ()
    notice: str = ""


class Remembers(Protocol):
    async def recall(self, user: str, session: str, text: str) -> Recollection: ...

    async def summarized(self, user: str, session: str, *, covers: int, text: str) -> None:
        """What a session was compacted to, for its user to see; with an empty text there is nothing any more."""
        ...

    async def forgotten(self, user: str) -> int:
        """Another number whenever something was forgotten since: what is kept of sessions may be other words now."""
        ...

    async def learn(
        self, user: str, session: str, turn: int, text: str, ask: Asks | None
    ) -> Learned:
        """Keeps what is worth it of what the user said, found by asking, or without a model where there is none.

        Where the user wants no memory, nobody is asked.
        """
        ...


class Chronicler(Protocol):
    """Hears of what people look for in their sessions. Its failure is logged, and hurts nobody."""

    async def ended(self, session: str, turn: int, *, said: str, answer: str, model: str) -> None:
        """A turn has ended: what the user said, and what came of it."""
        ...

    async def retracted(self, session: str, from_turn: int) -> None: ...
    async def gone(self, session: str) -> None:
        """The session was destroyed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`always` is the rule that would allow the same again, `findings` the risks that were found."""

    decision: Literal["allow", "ask", "deny"]
    reason: str
    always: str = ""
    findings: tuple[Finding, ...] = ()


class Judge(Protocol):
    def check(self, rules: PolicyRules) -> None:
        """Raises BadPolicy for what are no rules."""
        ...

    def judge(self, rules: PolicyRules, use: Use) -> Verdict:
        """Called in a thread: looking at code may take a while."""
        ...


class NamedModels(Models, Protocol):
    def parse(self, text: str) -> ModelRef:
        """A model as people write it. Raises UnknownModel."""
        ...


@runtime_checkable
class PerUser(Protocol):
    """Models that are not the same for all users."""

    def of(self, user: str) -> NamedModels: ...

    async def prepare(self, user: str) -> None:
        """What `of` gives from now on is as the user has it set. Called before a turn begins."""
        ...


def models_of(models: NamedModels, user: str) -> NamedModels:
    return models.of(user) if isinstance(models, PerUser) else models


class Workplaces(Protocol):
    def check(self, options: SessionOptions) -> None:
        """Raises BadSetting for what no sandbox can be."""
        ...

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        """One that opens its sandbox on first need: a new one, or the session's from before."""
        ...


class Toolbox(Protocol):
    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]: ...

    def missing(self, session: str) -> Mapping[str, str]:
        """Where tools would have come from that are not there, and why not, as the last look found."""
        ...

    async def leave(self, session: str) -> None:
        """The session rests or is gone: what was opened for its tools is let go of."""
        ...

    async def close(self) -> None: ...
