"""What a project wants done in its sandbox once, when the directory is there: the command after the first start."""

from __future__ import annotations

from typing import Protocol

from crucible.sandbox.holding import Held
from crucible.sandbox.service.requests import parse_command
from crucible.sandbox.session import Channel
from crucible.sandbox.spec import DEFAULT_RUN_TIMEOUT_S

MOST_LINES = 2000
_LONGEST_LINE = 4096


class Listener(Protocol):
    """Who is told how the steps go."""

    async def progress(self, stage: str, detail: str) -> None: ...
    async def notice(self, text: str) -> None: ...


async def take_first_steps(held: Held, client: Listener) -> None:
    """Its output is told line by line. That it fails is told too, and the sandbox stays."""
    spec = held.record.spec
    words = list(spec.after_create)
    argv = words if len(words) > 1 else ["/bin/sh", "-c", *words]
    asked = {"argv": argv, "timeout_s": DEFAULT_RUN_TIMEOUT_S}
    command = parse_command(asked, spec, held.image, held.doors.variables, has_directory=True)
    await client.progress("first steps", " ".join(words))
    process = await held.machine.start(command)
    lines = _Lines(client)
    try:
        while (chunk := await process.read()) is not None:
            await lines.take(chunk.channel, chunk.data)
        await lines.end()
        exit = await process.wait()
    finally:
        await process.forget()
    if exit.status:
        await client.notice(
            f"warning: The project's first command ended with status {exit.status}; the sandbox stays"
        )


class _Lines:
    """Whole lines of both channels, cut where a sandbox says too much."""

    def __init__(self, client: Listener) -> None:
        self._client = client
        self._begun = {Channel.OUTPUT: b"", Channel.ERRORS: b""}
        self._told = 0

    async def take(self, channel: Channel, data: bytes) -> None:
        *whole, begun = (self._begun[channel] + data).split(b"\n")
        self._begun[channel] = begun[:_LONGEST_LINE]
        for line in whole:
            await self._tell(line)

    async def end(self) -> None:
        for begun in self._begun.values():
            if begun:
                await self._tell(begun)

    async def _tell(self, line: bytes) -> None:
        self._told += 1
        if self._told <= MOST_LINES:
            await self._client.notice(line[:_LONGEST_LINE].decode(errors="replace").rstrip("\r"))
        elif self._told == MOST_LINES + 1:
            await self._client.notice("(further lines are not shown)")
