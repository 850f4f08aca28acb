"""What the gateway asks of whoever keeps the budgets: every call of a model, before it is passed on.

Nobody here knows prices or limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["budget", "unpriced", "unmetered", "invalid", "too-large", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """The worst that a call can come to. `input_tokens` is None where the request's size does not bound it."""

    provider: str
    model: str
    input_tokens: int | None
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`input_tokens` counts all that went in, with what was read from a cache or written to one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is not passed on. `resets_at` is when the same would be granted; 0.0 for never, or unknown."""

    kind: Kind
    reason: str
    resets_at: float = 0.0


class Admission(Protocol):
    """A call that may be made."""

    async def settle(self, usage: Usage | None) -> None:
        """What it came to; None if nobody can say, which counts as the worst. Harmless when repeated."""
        ...


class Meter(Protocol):
    """Of one sandbox. It grants only what fits, however many calls are under way."""

    async def is_binding(self) -> bool:
        """Whether any limit holds now. Where none does, connections to model providers are not counted."""
        ...

    async def admit(self, call: ModelCall) -> Admission | Refusal: ...


class NotMetered(Exception):
    """A request that cannot be counted, or must not be made under a budget."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(kind=kind, reason=reason)
