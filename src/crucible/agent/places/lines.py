"""A program in a session's sandbox that is talked with: its input and output, as long as both want."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from crucible.agent.places.opening import OF_AGENT, SandboxRoom
from crucible.agent.workplace import WORKSPACE
from crucible.errors import CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.service.requests import parse_command
from crucible.sandbox.session import Channel, Chunk

_MOST_COMPLAINTS = 4096


async def open_line(
    room: SandboxRoom, held: Held, argv: tuple[str, ...], environment: Mapping[str, str]
) -> GuestLine:
    asked: dict[str, Any] = {
        "argv": list(argv),
        "workdir": WORKSPACE,
        "environment": dict(environment),
        "wants_input": True,
    }
    command = parse_command(asked, held.record.spec, held.image, held.doors.variables)
    execution = await room.executions.start(held, command)
    execution.note({OF_AGENT: room.mark})
    return GuestLine(execution)


class GuestLine:
    """What it writes to its standard error is in the sandbox's log; the last of it is remembered here."""

    def __init__(self, execution: Execution) -> None:
        self.complaints = b""
        self._execution = execution
        self._chunks: AsyncGenerator[Chunk, None] = execution.follow()

    async def send(self, data: bytes) -> None:
        await self._execution.write(data)

    async def receive(self) -> bytes:
        async for chunk in self._chunks:
            if chunk.channel is Channel.OUTPUT and chunk.data:
                return chunk.data
            if chunk.channel is Channel.ERRORS:
                self.complaints = (self.complaints + chunk.data)[-_MOST_COMPLAINTS:]
        return b""

    async def close(self) -> None:
        await finish(self._end())

    async def _end(self) -> None:
        self._execution.is_given_up = True
        with contextlib.suppress(CrucibleError):
            await self._execution.process.forget()
        with contextlib.suppress(RuntimeError):
            # Somebody may still be reading; what they read ends by itself.
            await self._chunks.aclose()
        await self._execution.forgotten()
