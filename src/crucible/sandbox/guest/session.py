"""A Session over the channel, and what only a machine of ours is asked: prepare, freeze, attach."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from crucible.errors import ProtocolBroken
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.dial import GuestConnection
from crucible.sandbox.guest.files import GuestFiles
from crucible.sandbox.guest.process import GuestProcess
from crucible.sandbox.session import (
    Channel,
    Command,
    Completed,
    ExecInfo,
    Identity,
    Stats,
)
from crucible.wire.answers import Done, Execs, Grown, Measured
from crucible.wire.frames import MAX_STREAM
from crucible.wire.generation import Hello
from crucible.wire.requests import (
    CONFINE_NO_POWERS,
    CONFINE_READ_ONLY,
    Confine,
    EndAll,
    Plain,
    Prepare,
    Shutdown,
    Verb,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.sandbox.guest.outlet import GuestOutlet
    from crucible.sandbox.guest.watch import GuestWatch

DISK_S: Final = 120.0


class GuestSession:
    """Owns the channel. `on_close` runs after it is closed: there a backend ends its machine."""

    def __init__(
        self, channel: GuestChannel, *, on_close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.channel = channel
        self._files = GuestFiles(channel)
        self._on_close = on_close

    @property
    def files(self) -> GuestFiles:
        return self._files

    @property
    def hello(self) -> Hello:
        """What the agent said when it was met: its state then, and its version."""
        return self.channel.hello

    async def start(self, command: Command) -> GuestProcess:
        return await GuestProcess.start(self.channel, command)

    async def run(
        self, command: Command, *, input: bytes = b"", max_output: int = 1 << 24
    ) -> Completed:
        """Runs to the end. Keeps the first `max_output` bytes of each channel, drops the rest."""
        if input:
            command = replace(command, wants_input=True)
        process = await self.start(command)
        try:
            feeding = asyncio.create_task(_feed(process, input)) if command.wants_input else None
            try:
                kept = await _collect(process, max_output)
                exit = await process.wait()
            finally:
                if feeding is not None:
                    feeding.cancel()
                    await asyncio.gather(feeding, return_exceptions=True)
        finally:
            await process.forget()
        return Completed(
            exit=exit, output=bytes(kept[Channel.OUTPUT]), errors=bytes(kept[Channel.ERRORS])
        )

    async def dial(self, port: int) -> GuestConnection:
        return await GuestConnection.dial(self.channel, port)

    async def outlet(self) -> GuestOutlet:
        # Loaded here because most commands need no network.
        from crucible.sandbox.guest.outlet import GuestOutlet

        return await GuestOutlet.open(self.channel)

    async def watch(self, path: bytes, *, recursive: bool = False) -> GuestWatch:
        from crucible.sandbox.guest.watch import GuestWatch

        return await GuestWatch.open(self.channel, path, recursive=recursive)

    async def stats(self) -> Stats:
        answer = await self.channel.ask(Plain(Verb.STATS), Measured)
        fields = answer._asdict()
        uptime_ns, cpu_ns = fields.pop("uptime_ns"), fields.pop("cpu_ns")
        return Stats(uptime_s=uptime_ns / 1e9, cpu_s=cpu_ns / 1e9, **fields)

    async def close(self) -> None:
        try:
            await self.channel.close()
        finally:
            if self._on_close is not None:
                await self._on_close()

    async def prepare(self, identity: Identity) -> None:
        """Gives the machine its entropy, identity and the time of this moment; thaws it."""
        await self.channel.writable_or_raise()
        request = Prepare(
            identity.entropy,
            time.time_ns(),
            identity.hostname,
            identity.machine_id,
            identity.boot_id,
        )
        await self.channel.ask(request, Done)

    async def list_execs(self) -> list[ExecInfo]:
        answer = await self.channel.ask(Plain(Verb.LIST), Execs)
        if any(not 0 < record.stream <= MAX_STREAM for record in answer.execs):
            raise ProtocolBroken("a list of commands names a stream that cannot be")
        return [
            ExecInfo(
                stream=record.stream,
                pid=record.pid,
                is_done=record.done,
                started_ns=record.started_ns,
                argv0=record.argv0,
            )
            for record in answer.execs
        ]

    async def attach(
        self, info: ExecInfo, *, output_offset: int = 0, errors_offset: int = 0
    ) -> GuestProcess:
        """Takes up a command that a host before this one started."""
        return await GuestProcess.attach(
            self.channel, info, output_offset=output_offset, errors_offset=errors_offset
        )

    async def grow(self) -> int:
        """Grows the writable filesystem to its device; returns its size in bytes."""
        answer = await self.channel.ask(Plain(Verb.GROW), Grown, DISK_S)
        return answer.disk_total

    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        """Takes from the user's processes what they had so far; it does not come back."""
        flags = CONFINE_READ_ONLY * read_only | CONFINE_NO_POWERS * no_powers
        await self.channel.ask(Confine(flags), Done)

    def stand_still(self) -> None:
        """The machine was paused: nothing that is waited for can come, and no deadline runs."""
        self.channel.patience.stand_still()

    def go_on(self) -> None:
        self.channel.patience.go_on()

    async def freeze(self) -> None:
        await self.channel.ask(Plain(Verb.FREEZE), Done, DISK_S)

    async def thaw(self) -> None:
        await self.channel.ask(Plain(Verb.THAW), Done)

    async def sync_disk(self) -> None:
        await self.channel.ask(Plain(Verb.SYNC_DISK), Done, DISK_S)

    async def end_processes(self, grace_s: float) -> None:
        await self.channel.ask(EndAll(int(grace_s * 1000)), Done, grace_s + SMALL_S)

    async def shutdown(self, grace_s: float) -> None:
        """Returns when the agent has begun; the channel ends when the machine is off."""
        await self.channel.ask(Shutdown(int(grace_s * 1000)), Done)


async def _feed(process: GuestProcess, data: bytes) -> None:
    await process.write(data)
    await process.close_input()


async def _collect(process: GuestProcess, most: int) -> dict[Channel, bytearray]:
    kept = {Channel.OUTPUT: bytearray(), Channel.ERRORS: bytearray()}
    while (chunk := await process.read()) is not None:
        room = most - len(kept[chunk.channel])
        if room > 0:
            kept[chunk.channel] += chunk.data[:room]
    return kept
