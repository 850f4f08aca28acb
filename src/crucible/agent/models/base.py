"""What the engine knows of a model: it is asked once, and answers in pieces. No provider's words appear here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from crucible.agent.messages import AssistantMessage, Message

Purpose = Literal["agent", "chat", "memory"]
Effort = Literal["off", "low", "medium", "high"]
StopReason = Literal["end", "tool-use", "length", "refusal", "other"]
Choice = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Which model, without its key: `anthropic:claude-sonnet-4`."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model can do. `calls_tools` is false for one that goes through the code pipeline."""

    context_tokens: int
    output_tokens: int
    calls_tools: bool = True
    takes_schema: bool = False
    sees_pictures: bool = False
    thinks: bool = False
    is_tiny: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """`parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """An object that is wanted instead of text."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model. `pictures` are the bytes of those that messages name, by blob."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    choice: Choice = "auto"
    schema: Schema | None = None
    thinking: Effort = "off"
    max_output_tokens: int = 0
    temperature: float | None = None
    seed: int | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`input_tokens` counts all that went in, those of the cache included. All zero is what nobody told."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def is_told(self) -> bool:
        return bool(self.input_tokens or self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegan:
    """A tool call whose arguments are still coming."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    id: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """A try failed before anything was told; the next one begins after `delay_s`.

    `model` is who is asked next, where that is another one. `may_have_cost` if the provider may charge for the try.
    """

    attempt: int
    delay_s: float
    reason: str
    model: ModelRef | None = None
    may_have_cost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Always the last. `model` is what the provider says has answered."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason
    model: ModelRef
    duration_s: float = 0.0


ModelEvent = TextDelta | ThinkingDelta | CallBegan | CallDelta | Retrying | Answered


class Model(Protocol):
    """Raises ModelError of `crucible.errors`; what it raises by kind is in errors/models.py."""

    @property
    def ref(self) -> ModelRef: ...

    @property
    def profile(self) -> Profile: ...

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """The answer as it comes, `Answered` last. Who leaves before ends the call at the provider."""
        ...

    async def close(self) -> None: ...


class Models(Protocol):
    """Finds models by their names, with the keys and addresses that settings give."""

    def model(self, ref: ModelRef) -> Model: ...

    def default(self, purpose: Purpose) -> ModelRef:
        """What is taken where nobody names one: by settings, else by keys that are there, else the embedded one."""
        ...
