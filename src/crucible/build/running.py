"""RUN: a command in a machine of its own, and what it changed there as a tar. Nothing of it happens on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crucible.build.drafts import LayerFile
from crucible.errors import BuildStepFailed, Unsupported
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

Output = Callable[[bytes], None]
_TIMED_OUT_HINT = "A step has as long as --timeout gives it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command with everything resolved; `text` is how it was written."""

    argv: tuple[str, ...]
    text: str
    environment: Mapping[str, str]
    workdir: str
    user: str


async def run_step(
    manager: Manager,
    spec: SandboxSpec,
    step: Step,
    layer: LayerFile,
    output: Output,
    *,
    timeout_s: float | None,
) -> None:
    """Raises BuildStepFailed when the command fails. The machine is gone when this returns, whatever happened."""
    async with manager.open(spec, disk="once") as held:
        await held.furnish()
        process = await held.machine.start(_command(step, timeout_s))
        while (chunk := await process.read()) is not None:
            output(chunk.data)
        ended = await process.wait()
        await process.forget()
        if ended.status != 0:
            hint = _TIMED_OUT_HINT if ended.timed_out else ""
            raise BuildStepFailed(step.text, ended.status, hint=hint)
        async for data in held.machine.files.layer_out():
            layer.write(data)


def _command(step: Step, timeout_s: float | None) -> Command:
    if not step.argv:
        raise Unsupported("RUN with an empty list of words runs nothing")
    return Command(
        argv=tuple(word.encode() for word in step.argv),
        environment={name.encode(): value.encode() for name, value in step.environment.items()},
        workdir=(step.workdir or "/").encode(),
        makes_workdir=True,
        user=step.user,
        timeout_s=timeout_s,
    )
