"""A temporary sandbox, one command, and nothing left but a line of audit."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Executions, describe
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.placing import place_elsewhere
from crucible.sandbox.records import LOCAL
from crucible.sandbox.service.requests import command_words, parse_command
from crucible.sandbox.spec import SandboxSpec
from crucible.values import dataclass, field

if TYPE_CHECKING:
    from crucible.network.secrets import Secret

Furnish = Callable[[Held], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Run:
    """`stages` is whole when the sandbox is gone."""

    held: Held
    execution: Execution
    stages: list[tuple[str, float]] = field(default_factory=list)


@asynccontextmanager
async def run_in_temporary(
    manager: Manager,
    executions: Executions,
    spec: SandboxSpec,
    asked: Mapping[str, Any],
    *,
    name: str | None = None,
    secrets: Sequence[Secret] = (),
    furnish: Furnish,
    has_directory: bool = False,
    owner: str = LOCAL,
) -> AsyncIterator[Run]:
    """The block follows the command; leaving it ends the sandbox. `furnish` is what comes before the command."""
    began = time.perf_counter()
    stages: list[tuple[str, float]] = []
    if not asked.get("argv"):
        # No machine is started to find out that there is nothing to run in it.
        image = await manager.images.gather(spec, await place_elsewhere(manager.machines, spec))
        inside = asked.get("image")
        command_words(asked, image.part(str(inside)) if inside else image)
    async with manager.open(spec, name=name, secrets=secrets, owner=owner) as held:
        command = parse_command(
            asked, spec, held.image, held.doors.variables, has_directory=has_directory
        )
        try:
            await furnish(held)
            executed = time.perf_counter()
            execution = await executions.start(held, command)
            run = Run(held=held, execution=execution, stages=stages)
            yield run
            exit = await execution.wait()
            stages += [(stage.name, stage.seconds) for stage in held.machine.stages]
            stages.append(("exec", time.perf_counter() - executed))
            closing = time.perf_counter()
        except BaseException:
            executions.audit("run", held, describe(command), None, stages)
            raise
    stages.append(("teardown", time.perf_counter() - closing))
    stages.append(("total", time.perf_counter() - began))
    manager.opening.note_stages([stage for stage in stages if stage[0] != "queue"])
    executions.audit("run", held, execution.facts, exit, stages)
