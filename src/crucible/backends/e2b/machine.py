"""A sandbox elsewhere as a machine in our hands: kept alive while we hold it, ended when we end it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any, Final

from crucible.backends.e2b.files import E2BFiles
from crucible.backends.e2b.process import E2BProcess
from crucible.backends.e2b.promises import ID_NAME, unsupported
from crucible.backends.e2b.sdk import Access, translated
from crucible.backends.e2b.watch import E2BWatch
from crucible.backends.e2b.wire import Wire
from crucible.errors import CrucibleError, GuestGone
from crucible.network.outlet import Outlet
from crucible.sandbox.backend import BootPlan, MachineHandle, Stage
from crucible.sandbox.session import (
    ByteStream,
    Channel,
    Command,
    Completed,
    ExecInfo,
    Identity,
    Process,
    Stats,
)
from crucible.values import replace

# A process with this number is on no host: what stands for it in a record is the remote's own id.
ELSEWHERE: Final = 0
END_S: Final = 30.0


class E2BMachine:
    """Implements `sandbox.backend.Machine`. `lease_s` is how long the provider keeps it without a word from us."""

    def __init__(
        self, plan: BootPlan, sandbox: Any, access: Access, *, lease_s: int, stages: list[Stage]
    ) -> None:
        self._plan = plan
        self._sandbox = sandbox
        self._access = access
        self._lease_s = lease_s
        self._stages = stages
        self._wire = Wire(sandbox, access, plan.name)
        self._files = E2BFiles(self.start)
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._keeping = asyncio.create_task(self._keep())

    @property
    def remote_id(self) -> str:
        return str(self._sandbox.sandbox_id)

    @property
    def handle(self) -> MachineHandle:
        return MachineHandle(pid=ELSEWHERE, started="", detail=self.remote_id)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages)

    @property
    def files(self) -> E2BFiles:
        return self._files

    @property
    def has_ended(self) -> bool:
        return self._over.done()

    async def start(self, command: Command) -> Process:
        process = await E2BProcess.start(self._wire, command, secrets.randbelow(1 << 31) + 1)
        self._wire.remember(process)
        return process

    async def run(
        self, command: Command, *, input: bytes = b"", max_output: int = 1 << 24
    ) -> Completed:
        if input:
            command = replace(command, wants_input=True)
        process = await self.start(command)
        feeding = asyncio.create_task(_feed(process, input)) if command.wants_input else None
        kept = {Channel.OUTPUT: bytearray(), Channel.ERRORS: bytearray()}
        try:
            while (chunk := await process.read()) is not None:
                room = max_output - len(kept[chunk.channel])
                kept[chunk.channel] += chunk.data[: max(0, room)]
            exit = await process.wait()
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
            await process.forget()
        return Completed(
            exit=exit, output=bytes(kept[Channel.OUTPUT]), errors=bytes(kept[Channel.ERRORS])
        )

    async def dial(self, port: int) -> ByteStream:
        raise unsupported("carries HTTP to ports, and no bytes")

    async def outlet(self) -> Outlet:
        raise unsupported("has a network of its provider's, and none through this host")

    async def watch(self, path: bytes, *, recursive: bool = False) -> E2BWatch:
        try:
            text = path.decode()
        except UnicodeDecodeError:
            raise unsupported("watches no directories whose names are not text") from None
        await self._files.list(path)  # which tells what is wrong with it, if something is
        return await E2BWatch.open(
            self._sandbox, self._access, self._plan.name, text, recursive=recursive
        )

    async def stats(self) -> Stats:
        raise unsupported("tells no figures of its own")

    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        raise unsupported("cannot take away what a sandbox may do")

    async def pause(self) -> None:
        raise unsupported("hangs up on every command when it pauses; stop it instead")

    async def resume(self) -> None:
        raise unsupported("has nothing to resume")

    async def become(self, name: str, identity: Identity) -> None:
        raise unsupported("cannot be kept waiting")

    async def list_execs(self) -> list[ExecInfo]:
        running = {info.stream: info for info in await self._wire.list_ours()}
        for process in self._wire.known:
            if process.is_done:
                running[process.stream] = ExecInfo(
                    stream=process.stream, pid=process.pid, is_done=True, started_ns=0, argv0=b""
                )
        return list(running.values())

    async def attach(
        self, info: ExecInfo, *, output_offset: int = 0, errors_offset: int = 0
    ) -> Process:
        ends = {Channel.OUTPUT: output_offset, Channel.ERRORS: errors_offset}
        process = await E2BProcess.attach(self._wire, info.stream, ends)
        self._wire.remember(process)
        return process

    async def console(self) -> bytes:
        return b""

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def end_processes(self, grace_s: float) -> None:
        """Those that we started; whatever else runs inside is the provider's or its own."""
        infos = await self._wire.list_ours()
        for info in infos:
            with contextlib.suppress(CrucibleError):
                await self._wire.signal(info.stream, info.pid, 15)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while infos := await self._wire.list_ours():  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.1)
        for info in infos:
            with contextlib.suppress(CrucibleError):
                await self._wire.signal(info.stream, info.pid, 9)

    async def shutdown(self, grace_s: float) -> None:
        """The provider keeps the disk, and the memory with it, until it is started again or removed."""
        await self.end_processes(grace_s)
        await self.detach()
        with translated(self._access, self._plan.name):
            await self._sandbox.pause(request_timeout=END_S)

    async def detach(self) -> None:
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        for process in self._wire.known:
            await process.leave()

    async def close(self) -> None:
        """Kills it. Raises if the provider did not say that it is gone."""
        await self.detach()
        with translated(self._access, self._plan.name), contextlib.suppress(GuestGone):
            await self._sandbox.kill(request_timeout=END_S)
        (self._plan.directory / ID_NAME).unlink(missing_ok=True)
        self._end("it was ended")

    async def _keep(self) -> None:
        """Tells the provider, well before its time is over, that it is still wanted."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                with translated(self._access, self._plan.name):
                    await self._sandbox.set_timeout(self._lease_s)
            except GuestGone as gone:
                self._end(gone.why)
                return
            except CrucibleError:
                continue  # it is tried twice more before the time is over

    def _end(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)


async def _feed(process: Process, data: bytes) -> None:
    await process.write(data)
    await process.close_input()
