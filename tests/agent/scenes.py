"""Engines for tests: a model that says what the test wrote for it, and real tools in a workplace of this host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.agent.places import LocalWorkplace

from crucible.agent.engine import Engine
from crucible.agent.facts import SessionFacts
from crucible.agent.keeping.files import JsonFiles
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Part,
    Text,
    ToolCall,
    ToolMessage,
)
from crucible.agent.models.base import (
    Answered,
    ModelEvent,
    ModelRef,
    Profile,
    Purpose,
    Request,
    StopReason,
    TextDelta,
    Usage,
)
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.seams import Toolbox
from crucible.agent.tools.base import Tool
from crucible.agent.tools.builtin import builtin_tools
from crucible.agent.workplace import Workplace

T = TypeVar("T")
SCRIPTED = ModelRef(provider="scripted", name="test")
PLAIN = Profile(context_tokens=100_000, output_tokens=4_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """What the model answers next. `before` is waited for before its first word, `amid` before its last."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason | None = None
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=10, output_tokens=5))
    before: asyncio.Event | None = None
    amid: asyncio.Event | None = None
    error: Exception | None = None


Line = Say | Callable[[Request], Say]


def call(name: str, id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


class Played:
    """A model that says its lines one after the other, and keeps what it was asked."""

    def __init__(self, *lines: Line, profile: Profile = PLAIN, ref: ModelRef = SCRIPTED) -> None:
        self.lines = list(lines)
        self.asked: list[Request] = []
        self.left = 0
        self.profile = profile
        self.ref = ref

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.asked.append(request)
        line = self.lines.pop(0) if self.lines else Say(text="Nothing more to say.")
        said = line if isinstance(line, Say) else line(request)
        try:
            if said.before is not None:
                await said.before.wait()
            if said.error is not None:
                raise said.error
            for word in _words(said.text):
                yield TextDelta(text=word)
                await asyncio.sleep(0)
            if said.amid is not None:
                await said.amid.wait()
        except BaseException:
            self.left += 1
            raise
        parts: tuple[Part, ...] = (*((Text(text=said.text),) if said.text else ()), *said.calls)
        yield Answered(
            message=AssistantMessage(
                parts=parts, model=str(self.ref), is_whole=said.stop != "length"
            ),
            usage=said.usage,
            stop=said.stop or ("tool-use" if said.calls else "end"),
            model=self.ref,
        )

    async def close(self) -> None:
        pass


class OneModel:
    """Finds the same model under every name, or by its name if several are given."""

    def __init__(self, *models: Played) -> None:
        self._models = {str(model.ref): model for model in models}
        self._first = models[0]

    def model(self, ref: ModelRef) -> Played:
        return self._models.get(str(ref), self._first)

    def parse(self, text: str) -> ModelRef:
        provider, _, name = text.partition(":")
        return ModelRef(provider=provider, name=name)

    def default(self, purpose: Purpose) -> ModelRef:
        return self._first.ref


class LocalPlaces:
    """A directory of this host for each session; they are found again by an engine that is given the same."""

    def __init__(self) -> None:
        self.made: dict[str, LocalWorkplace] = {}

    def check(self, options: SessionOptions) -> None:
        pass

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        return self.made.setdefault(session, LocalWorkplace())

    async def close(self) -> None:
        for place in self.made.values():
            await place.close()


class Builtin:
    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]:
        return await builtin_tools().tools()

    def missing(self, session: str) -> Mapping[str, str]:
        return {}

    async def leave(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass(slots=True, kw_only=True)
class Scene:
    engine: Engine
    model: Played
    parts: Parts
    places: LocalPlaces = field(default_factory=LocalPlaces)

    async def session(self, **options: Any) -> SessionFacts:
        return await self.engine.create_session(SessionOptions(**options))


@asynccontextmanager
async def scene(
    root: Path, *lines: Line, profile: Profile = PLAIN, toolbox: Toolbox | None = None, **parts: Any
) -> AsyncIterator[Scene]:
    model, places = Played(*lines, profile=profile), LocalPlaces()
    made = Parts(
        **{
            "store": JsonFiles(root / "sessions"),
            "models": OneModel(model),
            "workplaces": places,
            "toolbox": toolbox or Builtin(),
            **parts,
        }
    )
    try:
        async with Engine(made) as engine:
            yield Scene(engine=engine, model=model, parts=made, places=places)
    finally:
        await places.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end. A minute is for what hangs: nothing here takes long."""

    async def bounded() -> T:
        async with asyncio.timeout(120):
            return await work

    return asyncio.run(bounded())


def results(messages: Sequence[Message]) -> list[str]:
    return [
        result.text
        for message in messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


def _words(text: str) -> list[str]:
    return [*[f"{word} " for word in text.split(" ")][:-1], text.split(" ")[-1]] if text else []
