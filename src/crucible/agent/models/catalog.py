"""What is known of providers and their models, read from `catalog.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from crucible.agent.models.base import ModelRef, Profile, Purpose
from crucible.errors import UnknownModel, suggestion

Wire = Literal["anthropic", "openai", "deepseek", "groq", "together", "ollama"]
WIRES: tuple[Wire, ...] = get_args(Wire)
_FILE = Path(__file__).with_name("catalog.toml")
# The providers that are not reached over a network, and know their models themselves.
EMBEDDED, SCRIPTED = "embedded", "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`has_native_schema` is whether the provider itself holds an answer to a schema; else a tool call does."""

    context_tokens: int = 32_768
    output_tokens: int = 4_096
    calls_tools: bool = True
    thinks: bool = False
    sees_pictures: bool = False
    has_native_schema: bool = False

    def profile(self) -> Profile:
        return Profile(
            context_tokens=self.context_tokens,
            output_tokens=self.output_tokens,
            calls_tools=self.calls_tools,
            takes_schema=self.calls_tools or self.has_native_schema,
            sees_pictures=self.sees_pictures,
            thinks=self.thinks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    name: str
    wire: Wire
    keys: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    base_url: str = ""
    needs_key: bool = True
    defaults: Mapping[Purpose, str] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    providers: Mapping[str, Provider]
    models: Mapping[str, Mapping[str, Any]]

    def figures(self, ref: ModelRef, set_by_user: Mapping[str, Any] | None = None) -> Figures:
        provider = self.providers.get(ref.provider)
        usual = dict(provider.usual) if provider else {}
        return Figures(**{**usual, **self.models.get(str(ref), {}), **(set_by_user or {})})

    def provider_of(self, name: str) -> str | None:
        """Who has a model of this name, as far as is known."""
        known = (text.split(":", 1) for text in self.models)
        return next((provider for provider, model in known if model == name), None)


@cache
def catalog() -> Catalog:
    table = tomllib.loads(_FILE.read_text())
    return Catalog(
        providers={
            name: Provider(name=name, **_tuples(values))
            for name, values in table["providers"].items()
        },
        models=table["models"],
    )


def parse_ref(text: str) -> ModelRef:
    """`provider:name`. Raises UnknownModel."""
    provider, colon, name = text.strip().partition(":")
    if not (colon and provider and name):
        known = [str(one) for one in catalog().models]
        raise UnknownModel(
            f"{text[:80]!r} names no model",
            hint=suggestion(
                text, known, "Write it as provider:name, such as anthropic:claude-sonnet-4-6"
            ),
        )
    return ModelRef(provider=provider, name=name)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
