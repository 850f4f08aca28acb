"""What a server tells of sessions of its agent. All of it is checked for shape when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from crucible_client.errors import BadAnswer, CrucibleError, from_problem
from crucible_client.events import Event
from crucible_client.reading import Reader

Intent = Literal["chat", "agent", "code"]
Decision = Literal["once", "always", "edit", "deny"]
LAST = "turn-ended"


class SessionOptions(TypedDict, total=False):
    """What is missing is as the server usually has it.

    `models` names one per purpose (`agent`, `chat`, `memory`) as `provider:name`. `policy` has the lists `allow`, `ask`
    and `deny`; `budget` the limits `tokens`, `usd`, `sandbox_s`, `iterations`, `calls`; `sandbox` what the session's
    sandbox is like: `image`, `network`, `hosts`, `directory`, `memory_mib`, `cpus`, `disk_mib`, `environment`,
    `secrets` (`NAME:HOST`, by variables of the server).
    `checkpoints` has `is_on` and `keep`.
    """

    title: str
    labels: Mapping[str, str]
    system: str
    models: Mapping[str, str]
    thinking: Literal["off", "low", "medium", "high"]
    tools: Sequence[str] | None
    skills: Sequence[str] | None
    mcp: Sequence[str] | None
    policy: Mapping[str, Sequence[str]]
    budget: Mapping[str, float]
    sandbox: Mapping[str, Any]
    checkpoints: Mapping[str, Any]
    memory: bool
    max_iterations: int
    approval_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens. Those of the cache are part of `input_tokens`."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int

    @classmethod
    def read(cls, told: Any) -> Usage:
        reader = Reader(told)
        return cls(
            input_tokens=reader.whole("input_tokens"),
            output_tokens=reader.whole("output_tokens"),
            cache_read_tokens=reader.whole("cache_read_tokens"),
            cache_write_tokens=reader.whole("cache_write_tokens"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """`sandbox` is the name of its sandbox, empty before it was first needed; `isolation` the boundary around it."""

    id: str
    state: str
    title: str
    models: Mapping[str, Any]
    created_at: float
    used_at: float
    turns: int
    messages: int
    last_event: int
    usage: Usage
    cost_usd: float
    sandbox: str
    isolation: str
    parent: str

    @classmethod
    def read(cls, told: Any) -> SessionInfo:
        reader = Reader(told)
        place = reader.table_or_none("place") or {"name": "", "isolation": ""}
        return cls(
            id=reader.text("id"),
            state=reader.text("state"),
            title=reader.text("title"),
            models=reader.table("models"),
            created_at=reader.number("created_at"),
            used_at=reader.number("used_at"),
            turns=reader.whole("turns"),
            messages=reader.whole("messages"),
            last_event=reader.whole("last_event"),
            usage=Usage.read(reader.table("usage")),
            cost_usd=reader.number("cost_usd"),
            sandbox=Reader(place).text("name"),
            isolation=Reader(place).text("isolation"),
            parent=reader.text("parent"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool that the model called; `arguments` are as it wrote them."""

    id: str
    name: str
    arguments: str

    @property
    def args(self) -> dict[str, Any]:
        """The arguments, if they are the JSON object they should be; else none."""
        try:
            found = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @classmethod
    def read(cls, told: Any) -> ToolCall:
        reader = Reader(told)
        return cls(
            id=reader.text("id"), name=reader.text("name"), arguments=reader.text("arguments")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the model reads of a call. `exit_status` is there if a command ran to its end."""

    call: str
    name: str
    output: str
    is_error: bool
    exit_status: int | None

    @classmethod
    def read(cls, told: Any) -> ToolResult:
        reader = Reader(told)
        return cls(
            call=reader.text("call"),
            name=reader.text("tool"),
            output=reader.text("text"),
            is_error=reader.claim("error"),
            exit_status=reader.whole_or_none("exit_status"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a turn came to. `end` is `done`, or what stopped it; `object` is there if one was asked for."""

    turn: int
    text: str
    tool_calls: Sequence[ToolCall]
    usage: Usage
    cost_usd: float
    end: str
    intent: str
    model: str
    object: Any
    error: CrucibleError | None

    @property
    def ok(self) -> bool:
        return self.end == "done"

    def check(self) -> Answer:
        """Itself, if nothing stopped the turn; raises what did."""
        if self.ok:
            return self
        raise self.error or CrucibleError(f"The turn ended as {self.end!r}")

    @classmethod
    def read(cls, told: Any) -> Answer:
        reader = Reader(told)
        error = reader.table("error")
        return cls(
            turn=reader.whole("turn"),
            text=reader.text("text"),
            tool_calls=[ToolCall.read(one) for one in reader.items("calls")],
            usage=Usage.read(reader.table("usage")),
            cost_usd=reader.number("cost_usd"),
            end=reader.text("end"),
            intent=reader.text("intent"),
            model=reader.text("model"),
            object=told.get("value"),
            error=from_problem(error) if error else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """Something that a turn tells; `data` has what belongs to its kind. The guide lists all kinds."""

    number: int
    turn: int
    kind: str
    data: Mapping[str, Any]

    @property
    def text_delta(self) -> str:
        """A piece of the answer, in events of kind `text`."""
        return _text(self.data, "text") if self.kind == "text" else ""

    @property
    def tool_call(self) -> ToolCall | None:
        """The call that the model asks for, in the one event of kind `call` that has its arguments."""
        if self.kind != "call" or self.data.get("state") != "asked":
            return None
        told = (_text(self.data, name) for name in ("call", "tool", "arguments"))
        id, name, arguments = told
        return ToolCall(id=id, name=name, arguments=arguments)

    @property
    def tool_result(self) -> ToolResult | None:
        """What came of a call, in events of kind `result`."""
        return ToolResult.read(self.data) if self.kind == "result" else None

    @property
    def object(self) -> Any:
        """What there is of the object so far, in events of kind `object`; the whole one in the last event."""
        return self.data.get("value") if self.kind in ("object", LAST) else None

    @property
    def is_last(self) -> bool:
        return self.kind == LAST

    @classmethod
    def read(cls, event: Event) -> TurnEvent:
        number = event.number or ""
        if not (number.isascii() and number.isdecimal()):
            raise BadAnswer("The server sent an event of a session without its number")
        return cls(
            number=int(number),
            turn=Reader(event.data).whole("turn"),
            kind=event.kind,
            data=event.data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """How full a model's context is. At `compacts_at` tokens the history is compacted by itself."""

    model: str
    used_tokens: int
    limit_tokens: int
    share: float
    messages: int
    pinned: int
    compacts_at: int

    @classmethod
    def read(cls, told: Any) -> ContextUsage:
        reader = Reader(told)
        return cls(
            model=reader.text("model"),
            used_tokens=reader.whole("used_tokens"),
            limit_tokens=reader.whole("limit_tokens"),
            share=reader.number("share"),
            messages=reader.whole("messages"),
            pinned=reader.whole("pinned"),
            compacts_at=reader.whole("compacts_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A queue of the engine: how many run in it of how many that may, how many wait, and how long at most."""

    name: str
    limit: int
    running: int
    waiting: int
    done: int
    longest_wait_s: float

    @classmethod
    def read(cls, told: Any) -> Lane:
        reader = Reader(told)
        return cls(
            name=reader.text("name"),
            limit=reader.whole("limit"),
            running=reader.whole("running"),
            waiting=reader.whole("waiting"),
            done=reader.whole("done"),
            longest_wait_s=reader.number("longest_wait_s"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHealth:
    """How many sessions there are, how many of them have a turn or wait for a person, and the engine's lanes."""

    sessions: int
    busy: int
    waiting: int
    approvals: int
    lanes: Sequence[Lane]

    @classmethod
    def read(cls, told: Any) -> AgentHealth:
        reader = Reader(told)
        return cls(
            sessions=reader.whole("sessions"),
            busy=reader.whole("busy"),
            waiting=reader.whole("waiting"),
            approvals=reader.whole("approvals"),
            lanes=[Lane.read(one) for one in reader.items("lanes")],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A call that waits for a person: what would run, where, and the risk found (`findings`)."""

    id: str
    session: str
    tool: str
    subject: str
    arguments: Mapping[str, Any]
    where: str
    reason: str
    findings: Sequence[Mapping[str, Any]]
    expires_at: float

    @classmethod
    def read(cls, told: Any) -> Approval:
        reader = Reader(told)
        return cls(
            id=reader.text("id"),
            session=reader.text("session"),
            tool=reader.text("tool"),
            subject=reader.text("subject"),
            arguments=reader.table("arguments"),
            where=reader.text("where"),
            reason=reader.text("reason"),
            findings=reader.items("findings"),
            expires_at=reader.number("expires_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A recorded session that was run again. `divergence` tells of the first step that came out otherwise, `gap` of the
    one from which on it cannot be replayed, because contents were erased."""

    run: str
    steps: int
    calls: int
    same: int
    alike: int
    erased: int
    divergence: Mapping[str, Any] | None
    gap: Mapping[str, Any] | None

    @classmethod
    def read(cls, told: Any) -> Replay:
        reader = Reader(told)
        return cls(
            run=reader.text("run"),
            steps=reader.whole("steps"),
            calls=reader.whole("calls"),
            same=reader.whole("same"),
            alike=reader.whole("alike"),
            erased=reader.whole("erased"),
            divergence=reader.table_or_none("divergence"),
            gap=reader.table_or_none("gap"),
        )


def schema_of(wanted: Any) -> dict[str, Any]:
    """A JSON Schema as it is, or that of a class of pydantic."""
    if isinstance(wanted, dict):
        return wanted
    describe = getattr(wanted, "model_json_schema", None)
    if describe is None:
        raise TypeError("the schema must be a JSON Schema or a class of pydantic")
    found: dict[str, Any] = describe()
    return found


def made_of(wanted: Any, value: Any) -> Any:
    """The object as the class that was asked for, or plain."""
    make = getattr(wanted, "model_validate", None)
    return value if make is None or value is None else make(value)


def _text(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) else ""
