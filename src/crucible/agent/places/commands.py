"""One command of a session in its sandbox, to its end: heard while it runs, ended if nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from crucible.agent.places.opening import OF_AGENT, SandboxRoom
from crucible.agent.workplace import WORKSPACE, Heard, Ran
from crucible.agent.workplace import Channel as Name
from crucible.errors import CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.service.requests import parse_command
from crucible.sandbox.session import Channel, Exit
from crucible.values import replace

_NAMES: Mapping[Channel, Name] = {Channel.OUTPUT: "stdout", Channel.ERRORS: "stderr"}


async def run_command(
    room: SandboxRoom,
    held: Held,
    argv: tuple[str, ...],
    *,
    timeout_s: float,
    input: bytes,
    workdir: str,
    environment: Mapping[str, str],
    max_output: int,
    heard: Heard | None,
) -> Ran:
    asked: dict[str, Any] = {
        "argv": list(argv),
        "workdir": workdir,
        "environment": dict(environment),
        "timeout_s": timeout_s,
        "wants_input": bool(input),
    }
    command = parse_command(asked, held.record.spec, held.image, held.doors.variables)
    if workdir == WORKSPACE:
        command = replace(command, makes_workdir=True)
    execution = await room.executions.start(held, command)
    try:
        # So that whoever takes the sandbox over knows that nobody will come back for it.
        execution.note({OF_AGENT: room.mark})
        kept = _Kept(max_output, heard)
        exit = await _to_its_end(execution, input, kept)
    except BaseException:
        await finish(_end(execution))
        raise
    return Ran(
        exit_status=None if exit.timed_out else exit.status,
        stdout=bytes(kept.data[Channel.OUTPUT]),
        stderr=bytes(kept.data[Channel.ERRORS]),
        duration_s=exit.wall_s,
        timed_out=exit.timed_out,
        reason=_reason(execution, exit, timeout_s),
        is_cut=kept.is_cut,
    )


class _Kept:
    """Of each channel the first `most` bytes."""

    def __init__(self, most: int, heard: Heard | None) -> None:
        self.data = {Channel.OUTPUT: bytearray(), Channel.ERRORS: bytearray()}
        self.is_cut = False
        self._most = most
        self._heard = heard

    def take(self, channel: Channel, data: bytes) -> None:
        room = max(0, self._most - len(self.data[channel]))
        self.data[channel] += data[:room]
        self.is_cut = self.is_cut or len(data) > room
        if self._heard is not None:
            self._heard(_NAMES[channel], data)


async def _to_its_end(execution: Execution, input: bytes, kept: _Kept) -> Exit:
    feeding = asyncio.ensure_future(_feed(execution, input)) if input else None
    try:
        async with aclosing(execution.follow()) as following:
            async for chunk in following:
                kept.take(chunk.channel, chunk.data)
        return await execution.wait()
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(execution: Execution, data: bytes) -> None:
    await execution.write(data)
    await execution.process.close_input()


async def _end(execution: Execution) -> None:
    """At once and with all that it started, also what would not listen to a signal."""
    execution.is_given_up = True
    with contextlib.suppress(CrucibleError):
        await execution.process.forget()
    await execution.forgotten()


def _reason(execution: Execution, exit: Exit, timeout_s: float) -> str:
    if exit.timed_out:
        return f"it was ended after {timeout_s:g} s"
    if execution.limit is not None:
        return f"it met the limit of {execution.limit}"
    return f"killed by signal {exit.signal}" if exit.signal is not None else ""
