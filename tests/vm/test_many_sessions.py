"""Fifty sessions at once over real HTTP, in the formats of all providers: none is mixed up with another, none leaks.

Two of them have a sandbox of their own. The others work on this host: fifty machines would prove no more.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest
from tests.agent.scenes import LocalPlaces, results
from tests.conftest import SMALL
from tests.providers.server import FLAVOURS, ProviderServer
from tests.providers.turns import Turn, Use
from tests.vm.turn_stage import bash

from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings
from crucible.agent.options import Limits, SandboxWish, SessionOptions
from crucible.agent.places.opening import SandboxRoom
from crucible.agent.places.wishes import SandboxPlaces
from crucible.agent.workplace import Workplace
from crucible.config import Config
from crucible.ledger.ledger import Ledger
from crucible.sandbox.service.dispatch import Service

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("run")]

SESSIONS = 50
IN_MACHINES = ("s00", "s49")
MARK = re.compile(r"\bs\d\d\b")


class Mixed:
    """By the title of a session: a sandbox for some, a directory of this host for the others."""

    def __init__(self, service: Service) -> None:
        self.local = LocalPlaces()
        self._sandboxes = SandboxPlaces(
            SandboxRoom(
                manager=service.manager, executions=service.executions, snapshots=service.snapshots
            )
        )

    def check(self, options: SessionOptions) -> None:
        self._sandboxes.check(options)

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        places = self._sandboxes if options.title in IN_MACHINES else self.local
        return places.workplace(session, options, had_sandbox=had_sandbox)


@asynccontextmanager
async def engine_of(home: Path, server: ProviderServer) -> AsyncIterator[tuple[Engine, Ledger]]:
    """Gone with all it held when the block ends."""
    service = Service(assemble.manager(Config(home=home)))
    environment = {**server.environment(), "CRUCIBLE_CONFIG": os.devnull}
    models, places = Registry(load_settings(environment)), Mixed(service)
    parts = assemble._engine_parts(service)
    closing = (*parts.closing, models.close)
    ledger = parts.runs
    assert isinstance(ledger, Ledger)
    async with Engine(replace(parts, models=models, workplaces=places, closing=closing)) as engine:
        yield engine, ledger
    await places.local.close()
    await service.close()
    await service.manager.hands.let_all_go()
    service.manager.records.close()


async def take_a_turn(engine: Engine, ledger: Ledger, mark: str, flavour: str) -> None:
    session = await engine.create_session(
        SessionOptions(
            title=mark,
            models={"agent": f"{flavour}:test-model"},
            sandbox=SandboxWish(memory_mib=SMALL.memory_mib),
            budget=Limits(iterations=10, calls=10),
            memory=False,
        )
    )
    answer = await engine.generate(session.id, f"write down that you are {mark}, then read it")
    assert (answer.end, answer.text) == ("done", f"I am {mark}."), answer
    read = results(await engine.history(session.id))
    assert read[1:] == [mark, f"{mark} again"]
    place = (await engine.session(session.id)).place
    assert place is not None
    assert (place.isolation == "namespace") == (mark not in IN_MACHINES)
    assert (await ledger.verify(session.id)).is_whole
    tools = [one for one in await ledger.entries(session.id) if one.kind == "tool-call"]
    assert len(tools) == 3
    await engine.destroy(session.id)


def lines_of(mark: str) -> list[Turn]:
    written = {"path": "/workspace/name", "content": mark}
    return [
        Turn(uses=(Use(name="write", arguments=written),)),
        Turn(uses=(bash("cat name"), bash("echo $(cat name) again"))),
        Turn(text=f"I am {mark}."),
    ]


async def test_fifty_sessions_at_once_are_not_mixed_up_and_leave_nothing(small_home: Path) -> None:
    with ProviderServer() as server:
        # What is loaded and opened once for good is not counted.
        server.script(lines_of("s99"), match="s99")
        async with engine_of(small_home, server) as (engine, ledger):
            await take_a_turn(engine, ledger, "s99", "openai")
        before = Holdings.now()
        marks = [f"s{number:02}" for number in range(SESSIONS)]
        server.clear()
        for mark in marks:
            server.script(lines_of(mark), match=mark)
        async with engine_of(small_home, server) as (engine, ledger):
            async with asyncio.TaskGroup() as group:
                for mark, flavour in zip(marks, itertools.cycle(FLAVOURS), strict=False):
                    group.create_task(take_a_turn(engine, ledger, mark, flavour))
            assert await engine.sessions() == ()
            assert engine.health().busy == 0
            assert [one.running + one.waiting for one in engine.lanes()] == [0, 0, 0, 0]
        seen = [set(MARK.findall(str(request.body["messages"]))) for request in server.requests]
        assert sorted(map(tuple, seen)) == sorted((mark,) for mark in marks for _ in range(3))
    after = await settled(before)
    assert after.are_no_more_than(before), (before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What this process has: more of it afterwards is a leak."""

    tasks: int
    files: int
    children: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        gc.collect()
        children = [
            (thread / "children").read_text() for thread in Path("/proc/self/task").iterdir()
        ]
        return cls(
            tasks=len(asyncio.all_tasks()),
            files=len(list(Path("/proc/self/fd").iterdir())),
            children=frozenset(" ".join(children).split()),
        )

    def are_no_more_than(self, before: Holdings) -> bool:
        return (
            self.tasks <= before.tasks
            and self.files <= before.files
            and self.children <= before.children
        )


async def settled(before: Holdings) -> Holdings:
    """As they are when all that was on its way out has gone, or will not go."""
    for _ in range(1200):
        if (now := Holdings.now()).are_no_more_than(before):
            break
        await asyncio.sleep(0.1)
    return now
