"""What the engine needs of others, each in the fewest verbs, and what stands in where there is nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from crucible.agent.facts import Finding
from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import Limits, PolicyRules, SessionOptions
from crucible.agent.tools.base import Code, Tool, Use
from crucible.agent.workplace import Place, Workplace

StepKind = Literal[
    "session", "prompt", "model", "tool", "artifact", "approval", "policy", "hook", "memory", "turn"
]


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
    async def record(self, step: Step) -> str:
        """The name of the blob that has the output, empty without one."""
        ...

    async def blob(self, session: str, name: str) -> bytes | None:
        """None where it was erased or never was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The worst that is about to be spent."""

    session: str
    user: str
    limits: Limits
    model: ModelRef | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    sandbox_s: float = 0.0
    iterations: int = 0
    calls: int = 0


class Hold(Protocol):
    """What is reserved until it is known what was really spent. Settled once; settling it again does nothing."""

    async def settle(
        self,
        *,
        usage: Usage | None = None,
        sandbox_s: float = 0.0,
        iterations: int = 0,
        calls: int = 0,
    ) -> float | None:
        """What it cost in USD, None without a known price."""
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


class Remembers(Protocol):
    async def recall(self, user: str, session: str, text: str) -> tuple[Recalled, ...]: ...

    async def learn(self, user: str, session: str, turn: int, text: str) -> tuple[str, ...]:
        """What was newly learned of what the user said, as texts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`always` is the pattern that would allow the same again."""

    decision: Literal["allow", "ask", "deny"]
    reason: str
    always: str = ""


class Judge(Protocol):
    def inspect(self, code: Code) -> tuple[Finding, ...]:
        """Called in a thread: it may take a while."""
        ...

    def judge(self, rules: PolicyRules, use: Use, findings: tuple[Finding, ...]) -> Verdict: ...


class Workplaces(Protocol):
    def check(self, options: SessionOptions) -> None:
        """Raises BadSetting for what no sandbox can be."""
        ...

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        """One that opens its sandbox on first need: a new one, or the session's from before."""
        ...


class Toolbox(Protocol):
    async def tools(self, session: str, options: SessionOptions) -> tuple[Tool, ...]: ...
