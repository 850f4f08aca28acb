"""An engine as the program puts it together, whose models speak over HTTP and whose sessions share one sandbox.

A sandbox for each session would prove no more of a turn, and take a second each. What the turns of a module do there is
told apart by the names of their files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conftest import Run
from tests.providers.server import ProviderServer
from tests.providers.turns import Received, Turn, Use

from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.events import Event
from crucible.agent.facts import Answer, SessionFacts
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.places.opening import SandboxRoom, Wanted
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.config import Config
from crucible.sandbox.holding import Held
from crucible.sandbox.service.dispatch import Service
from crucible.sandbox.spec import SandboxSpec

NAME = "shared"
_LONGEST_S = 240.0


class SharedSandbox:
    """Gives all sessions the same sandbox, which stays when one of them goes."""

    def __init__(self, room: SandboxRoom, spec: SandboxSpec) -> None:
        self.room = room
        self._wanted = Wanted(spec=spec)

    def check(self, options: SessionOptions) -> None:
        pass

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        return _Shared(self.room, NAME, self._wanted)

    @property
    def held(self) -> Held:
        return self.room.manager.running(NAME)


class _Shared(SandboxWorkplace):
    async def close(self, *, keep: bool = False) -> None:
        await super().close(keep=True)


class TurnStage:
    """`server` plays the providers; `place` is the sandbox seen from outside the sessions."""

    def __init__(
        self, service: Service, server: ProviderServer, spec: SandboxSpec, changes: dict[str, Any]
    ) -> None:
        self.service = service
        self.server = server
        self.sandbox = SharedSandbox(
            SandboxRoom(
                manager=service.manager, executions=service.executions, snapshots=service.snapshots
            ),
            spec,
        )
        environment = {**server.environment(), "CRUCIBLE_CONFIG": os.devnull}
        models = Registry(load_settings(environment))
        parts = assemble._engine_parts(service)
        self.parts: Parts = replace(
            parts,
            **{
                "models": models,
                "workplaces": self.sandbox,
                "closing": (*parts.closing, models.close),
                **changes,
            },
        )
        self.engine = Engine(self.parts)
        self.place = SandboxWorkplace(self.sandbox.room, NAME, Wanted(spec=spec))

    async def session(self, model: str, **options: Any) -> SessionFacts:
        wanted = SessionOptions(models={"agent": model}, memory=False, **options)
        return await self.engine.create_session(wanted)

    async def ask(self, session: str, prompt: str, *turns: Turn, **asked: Any) -> Answer:
        """A turn in which the provider answers with these."""
        self.script(*turns)
        async with asyncio.timeout(_LONGEST_S):
            return await self.engine.generate(session, prompt, **asked)

    def script(self, *turns: Turn) -> None:
        self.server.clear()
        self.server.script(turns)

    async def until(self, session: str, prompt: str, kind: str, text: str) -> Event:
        """Begins a turn, and returns when an event of that kind has that text in it."""
        async with asyncio.timeout(_LONGEST_S):
            async for event in self.engine.stream(session, prompt):
                if event.kind == kind and text in str(event.data.get("text", event.data)):
                    return event
        raise AssertionError(f"the turn ended without {text!r}")

    async def gone(self, condition: int) -> None:
        """Returns when so many clients have left the provider in the middle of an answer."""
        found = await asyncio.to_thread(
            self.server.wait_for, lambda server: server.gone == condition, _LONGEST_S
        )
        assert found, self.server.gone

    async def says(self, script: str) -> str:
        """What a shell in the sandbox prints, asked past the sessions."""
        ran = await self.place.run(("/bin/sh", "-c", script), timeout_s=60)
        assert ran.exit_status == 0, ran
        return ran.stdout.decode()

    async def close(self) -> None:
        for session in await self.engine.sessions():
            await self.engine.destroy(session.id)
        await self.engine.close()
        await self.place.close()
        await self.service.manager.hands.let_all_go()


@contextmanager
def turn_stage(home: Path, run: Run, spec: SandboxSpec, **changes: Any) -> Iterator[TurnStage]:
    """For all tests of a module."""

    async def begin() -> TurnStage:
        service = Service(assemble.manager(Config(home=home)))
        stage = TurnStage(service, server, spec, changes)
        await stage.engine.start()
        await stage.place.open()
        return stage

    with ProviderServer() as server:
        stage = run(begin())
        yield stage
        run(stage.close())
        stage.service.manager.records.close()


def bash(command: str, **more: Any) -> Use:
    return Use(name="bash", arguments={"command": command, **more})


def told_results(received: Received) -> list[str]:
    """The results of calls that the provider was sent last, in its own format."""
    messages = received.body["messages"]
    if received.flavour == "anthropic":
        return [
            _text(block["content"])
            for block in messages[-1]["content"]
            if block["type"] == "tool_result"
        ]
    found: list[str] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        found.insert(0, _text(message["content"]))
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


@asynccontextmanager
async def a_session(stage: TurnStage, model: str, **options: Any) -> AsyncIterator[str]:
    session = await stage.session(model, **options)
    yield session.id
    await stage.engine.destroy(session.id)
