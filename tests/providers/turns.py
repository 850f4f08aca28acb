"""What a provider is to say, in no provider's words: one turn for each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fault = Literal[
    "wrong-key",
    "echo-key",
    "unknown-model",
    "rate-limited",
    "quota",
    "refused",
    "context-too-long",
    "too-large",
    "server-error",
    "overloaded",
    "html",
    "redirect",
    "silent",
    "cut",
    "cut-early",
    "error-within",
    "malformed-json",
    "malformed-events",
    "slow",
    "stalled",
    "endless",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A tool call. `arguments` that are a text are sent as they are."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """`object` is an answer to the schema that was asked for, in whatever way the request asks for it.

    `fault` spoils the answer; what a fault needs further is in `retry_after`.
    """

    text: str = ""
    thinking: str = ""
    signature: str = "c2lnbmVk"
    uses: tuple[Use, ...] = ()
    object: Mapping[str, Any] | None = None
    stop: str = ""
    piece: int = 7
    input_tokens: int = 120
    output_tokens: int = 30
    cache_read: int = 0
    cache_write: int = 0
    fault: Fault | None = None
    retry_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came; the names in `head` are in small letters."""

    flavour: str
    path: str
    head: Mapping[str, str]
    body: Mapping[str, Any]


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
