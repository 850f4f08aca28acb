"""A sandbox on QEMU: the VMM and the guest inside it as one thing that can be used, kept and copied."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Coroutine
from functools import cached_property
from pathlib import Path
from typing import Any

from crucible.backends.qemu import disks
from crucible.backends.qemu.vmm import Vmm
from crucible.errors import BootFailed, GuestGone, GuestSilent, SandboxError
from crucible.sandbox.backend import BootPlan, MachineHandle, Stage
from crucible.sandbox.finishing import finish
from crucible.sandbox.guest.channel import FLUSH_AFTER_S, GuestChannel
from crucible.sandbox.guest.exchange import Exchange
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.session import (
    ByteStream,
    Command,
    Completed,
    ExecInfo,
    Files,
    Identity,
    Process,
    Stats,
    Watch,
)
from crucible.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.backends.qemu.layers import LiveDisk
    from crucible.network.outlet import Outlet

FROZEN = 2
_GROW_DEADLINE_S = 10.0
_FRESH_FLUSH_S = 5.0
# What its programs wrote goes to the disk of the host first, which may be busy.
_POWER_OFF_S = 30.0
_FREEZE_DEADLINE_S = 130.0


class QemuMachine:
    """Implements `sandbox.backend.Machine`."""

    def __init__(self, *, plan: BootPlan, vmm: Vmm, guest: GuestSession) -> None:
        self._plan = plan
        self._vmm = vmm
        self.guest = guest
        self._stages: list[Stage] = []

    @property
    def handle(self) -> MachineHandle:
        return self._vmm.handle

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages)

    def add_stage(self, name: str, seconds: float) -> None:
        self._stages.append(Stage(name=name, seconds=seconds))

    @property
    def files(self) -> Files:
        return self.guest.files

    async def start(self, command: Command) -> Process:
        return await self.guest.start(command)

    async def run(
        self, command: Command, *, input: bytes = b"", max_output: int = 1 << 24
    ) -> Completed:
        return await self.guest.run(command, input=input, max_output=max_output)

    async def dial(self, port: int) -> ByteStream:
        return await self.guest.dial(port)

    async def outlet(self) -> Outlet:
        return await self.guest.outlet()

    async def watch(self, path: bytes, *, recursive: bool = False) -> Watch:
        return await self.guest.watch(path, recursive=recursive)

    async def stats(self) -> Stats:
        return await self.guest.stats()

    async def list_execs(self) -> list[ExecInfo]:
        return await self.guest.list_execs()

    async def attach(
        self, info: ExecInfo, *, output_offset: int = 0, errors_offset: int = 0
    ) -> Process:
        return await self.guest.attach(
            info, output_offset=output_offset, errors_offset=errors_offset
        )

    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        await self.guest.confine(read_only=read_only, no_powers=no_powers)

    async def pause(self) -> None:
        await self._vmm.monitor.execute("stop")
        self.guest.stand_still()

    async def resume(self) -> None:
        await self._vmm.monitor.execute("cont")
        self.guest.go_on()

    @property
    def has_ended(self) -> bool:
        return self._vmm.has_ended

    async def become(self, name: str, identity: Identity) -> None:
        self._vmm.name = self.guest.channel.name = name
        self._plan = replace(self._plan, name=name, identity=identity)
        began = time.perf_counter()
        await self.resume()
        resumed = time.perf_counter()
        await self.guest.prepare(identity)
        self._stages = []
        self.add_stage("handout", resumed - began)
        self.add_stage("seed", time.perf_counter() - resumed)

    async def lend(self) -> socket.socket:
        from crucible.errors import SandboxLent

        await self.guest.channel.close(SandboxLent(self._plan.name))
        return self._vmm.join_agent()

    async def console(self) -> bytes:
        return await self._vmm.console()

    async def ended(self) -> str:
        return await self._vmm.ended()

    async def grow_disk(self, size_mib: int) -> None:
        """Tells the running machine that its disk is larger, and stretches the filesystem over it."""
        await self._disk.resize(size_mib << 20)
        before = (await self.guest.stats()).disk_total
        deadline = asyncio.get_running_loop().time() + _GROW_DEADLINE_S
        # The guest learns of the new size by an interrupt that it may not have seen yet.
        while (total := await self.guest.grow()) <= before:
            if asyncio.get_running_loop().time() > deadline:
                raise BootFailed(f"The machine's disk stayed at {total >> 20} MiB")
            await asyncio.sleep(0.01)

    @cached_property
    def _disk(self) -> LiveDisk:
        # Loaded here because a sandbox that is never copied has no need of it.
        from crucible.backends.qemu.layers import LiveDisk

        return LiveDisk.of(self._plan, self._vmm.monitor)

    async def freeze_into(self, stream: Path) -> tuple[Path, ...]:
        """Stands still, writes memory and devices to `stream`, freezes the disk layers, goes on.

        Gives the frozen layers, which together with the stream are one consistent moment.
        """
        # Which layers are in use can be told only while nothing lies above what a merge has replaced.
        await self._disk.tidy()
        await self._disk.merge_if_long()
        await self._freeze()
        try:
            try:
                await self.pause()
                frozen = await self._disk.push()
                await self._vmm.save(stream, with_memory=True)
            except BaseException:
                await self._vmm.give_up_saving()
                raise
            finally:
                await self.resume()
                await self._disk.tidy()
        finally:
            await self.guest.thaw()
        return frozen

    async def _freeze(self) -> None:
        """Given up halfway, it is undone: a guest that freezes after it was thawed would stay so."""
        try:
            await finish(self.guest.freeze(), deadline_s=_FREEZE_DEADLINE_S)
        except BaseException:
            with contextlib.suppress(SandboxError):
                await self.guest.thaw()
            raise

    async def end_processes(self, grace_s: float) -> None:
        await self.guest.end_processes(grace_s)

    async def shutdown(self, grace_s: float) -> None:
        with contextlib.suppress(SandboxError, TimeoutError):
            await self.guest.shutdown(grace_s)
            async with asyncio.timeout(grace_s + _POWER_OFF_S):
                await self._vmm.ended()
        await self.close()

    async def close(self) -> None:
        await self.guest.close()
        await self._vmm.kill()

    async def detach(self) -> None:
        await self.guest.close()
        self._vmm.detach()


async def meet(plan: BootPlan, vmm: Vmm, *, deadline_s: float, is_fresh: bool) -> GuestSession:
    """Joins the agent inside. If it stays silent or its machine ends, says why as well as can be known."""
    meeting = asyncio.create_task(_connect(plan, vmm, deadline_s=deadline_s, is_fresh=is_fresh))
    ending = asyncio.create_task(vmm.ended())
    try:
        await asyncio.wait({meeting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if meeting.done():
            return GuestSession(meeting.result())
    except (GuestSilent, GuestGone) as error:
        words = _last_words(await vmm.console())
        raise BootFailed(error.message, hint=words or error.hint) from error
    except asyncio.CancelledError:
        await _call_off(meeting)
        raise
    finally:
        ending.cancel()
    await _call_off(meeting)
    raise BootFailed(
        f"The machine of sandbox {plan.name!r} ended before it answered: {ending.result()}",
        hint=_last_words(await vmm.console()) or "Run `crucible doctor`",
    )


async def _connect(plan: BootPlan, vmm: Vmm, *, deadline_s: float, is_fresh: bool) -> GuestChannel:
    vmm.name = plan.name
    exchange = os.open(plan.directory / disks.EXCHANGE_NAME, os.O_WRONLY | os.O_CLOEXEC)
    return await GuestChannel.connect(
        vmm.agent,
        name=plan.name,
        deadline_s=deadline_s,
        why_gone=vmm.gone,
        # A fresh machine has no cut frame to flush, and flushing would only slow down a busy host.
        flush_after_s=_FRESH_FLUSH_S if is_fresh else FLUSH_AFTER_S,
        exchange=Exchange(exchange),
    )


async def _call_off(meeting: asyncio.Task[GuestChannel]) -> None:
    """A meeting that came about in the very moment it was called off holds the socket, too."""
    meeting.cancel()
    await asyncio.gather(meeting, return_exceptions=True)
    if not meeting.cancelled() and meeting.exception() is None:
        await meeting.result().close()


async def meet_again(
    plan: BootPlan, vmm: Vmm, *, deadline_s: float, is_paused: bool
) -> GuestSession:
    """Joins an agent that another process had met, and sets right what that process may have left."""

    async def settle() -> None:
        if guest.hello.state == FROZEN:
            await guest.thaw()
        if is_paused:
            await vmm.monitor.execute("stop")
            guest.stand_still()

    guest = await meet(plan, vmm, deadline_s=deadline_s, is_fresh=False)
    await use_or_close(guest, settle())
    return guest


async def use_or_close(guest: GuestSession, work: Coroutine[Any, Any, None]) -> None:
    """A guest that was met holds its machine's socket: left open, it would get the next machine's bytes."""
    try:
        await work
    except BaseException:
        await guest.close()
        raise


def _last_words(console: bytes) -> str:
    lines = [line for line in console.decode(errors="replace").splitlines() if line.strip()]
    return f"Its console said: {lines[-1][:200]}" if lines else ""
