"""Asks models of the provider server and gathers what they tell."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from tests.providers.server import ProviderServer

from crucible.agent.messages import Message, UserMessage
from crucible.agent.models.access import Waits
from crucible.agent.models.base import (
    Answered,
    CallDelta,
    Model,
    ModelEvent,
    ModelRef,
    Request,
    TextDelta,
    ThinkingDelta,
)
from crucible.agent.models.persistent import Patience, Persistent
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings

# One model of each provider; the names are known to the catalog.
NAMES = {
    "anthropic": "claude-sonnet-4-6",
    "openai": "gpt-4o",
    "groq": "llama-3.3-70b-versatile",
    "together": "openai/gpt-oss-120b",
    "deepseek": "deepseek-chat",
    "ollama": "llama3.2",
    "compatible": "some/model",
}
FLAVOURS = sorted(NAMES)
NO_PATIENCE = Patience(tries=1)


class Sleeper(Protocol):
    async def sleep(self, seconds: float) -> None: ...


def make_registry(
    server: ProviderServer,
    *,
    patience: Patience = NO_PATIENCE,
    waits: Waits | None = None,
    clock: Sleeper | None = None,
    **more: str,
) -> Registry:
    settings = replace(load_settings({**server.environment(), **more}), waits=waits or Waits())
    if clock is None:
        return Registry(settings, patience=patience)
    asleep = partial(Persistent, sleep=clock.sleep, draw=lambda: 1.0)
    return Registry(settings, patience=patience, persist=asleep)


def ref(flavour: str, name: str = "") -> ModelRef:
    return ModelRef(provider=flavour, name=name or NAMES[flavour])


def ask_for(*messages: Message | str, **options: Any) -> Request:
    made = tuple(UserMessage(text=one) if isinstance(one, str) else one for one in messages)
    return Request(system=options.pop("system", "Be brief."), messages=made, **options)


async def gather(model: Model, request: Request) -> list[ModelEvent]:
    async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
        return [event async for event in events]


async def answer(model: Model, request: Request) -> Answered:
    last = (await gather(model, request))[-1]
    assert isinstance(last, Answered)
    return last


async def ask(
    server: ProviderServer, flavour: str, request: Request, **options: Any
) -> list[ModelEvent]:
    registry = make_registry(server, **options)
    try:
        return await gather(registry.model(ref(flavour)), request)
    finally:
        await registry.close()


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thoughts_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ThinkingDelta))


def arguments_of(events: list[ModelEvent], call: str) -> str:
    return "".join(
        event.arguments for event in events if isinstance(event, CallDelta) and event.id == call
    )


def end_of(events: list[ModelEvent]) -> Answered:
    assert isinstance(events[-1], Answered)
    return events[-1]
