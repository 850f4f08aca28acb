"""Where machines come into being: booted cold, restored from a saved one, or condensed into one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from crucible.backends.qemu import disks, limits, memory, saved
from crucible.backends.qemu.command import Accelerator, BootFiles, Shape
from crucible.backends.qemu.disks import DiskChain
from crucible.backends.qemu.host import Host
from crucible.backends.qemu.jail import Cage
from crucible.backends.qemu.saved import SavedMachine
from crucible.backends.qemu.shelf import MemoryShelf
from crucible.backends.qemu.vmm import Launch, Vmm, launch
from crucible.errors import GuestRefused
from crucible.images.kernel import Kernel
from crucible.sandbox.backend import BootPlan
from crucible.sandbox.finishing import finish
from crucible.sandbox.session import Command
from crucible.values import dataclass

if TYPE_CHECKING:
    from crucible.backends.qemu.machine import QemuMachine

VMM_OVERHEAD_MIB = 192
# What QEMU may map beside the guest's memory: translated code, heaps, the stacks of up to 64 threads.
VMM_ADDRESSES_MIB = 1024
# Beside those of its processors: QEMU takes up to 64 for its disks alone, and ends itself where it gets none.
MOST_THREADS = 128
BOOT_DEADLINE_S = 60.0
RESTORE_DEADLINE_S = 30.0
_WRITE_DEADLINE_S = 3600.0
_DISK_SLACK = 64 << 20
# What most commands need is read once, so that it is in every copy's memory. An image without these
# programs is merely a little slower.
_WARM_UPS: tuple[tuple[bytes, ...], ...] = (
    (b"sh", b"-c", b"env true; ls; cat /dev/null"),
    (b"python3", b"-c", b"import json, subprocess"),
)
# What its kernel has put off (freeing groups, writing back, ending grace periods) is done in the template,
# or every copy would do it again.
_SETTLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundry:
    """The parts every machine of one accelerator is made of on this host."""

    host: Host
    accelerator: Accelerator
    kernel: Kernel
    home: Path
    agent: Path
    agent_digest: str
    shelf: MemoryShelf

    async def boot(
        self, plan: BootPlan, chain: DiskChain, *, deadline_s: float = BOOT_DEADLINE_S
    ) -> QemuMachine:
        """From power-on, over the disk that is there."""
        started = time.perf_counter()
        descriptor = memory.create(plan.memory_mib << 20)
        try:
            # Shared with nobody, yet not private: a private copy would hold every page twice.
            vmm = self._launch(plan, chain, descriptor, start="boot", shares_memory=True)
        finally:
            os.close(descriptor)
        await self._switch_on(vmm)
        return await self._welcome(plan, vmm, started=started, deadline_s=deadline_s)

    async def restore(self, plan: BootPlan, source: SavedMachine) -> QemuMachine:
        """A private copy of a saved machine, under the plan's identity."""
        started = time.perf_counter()
        wanted_mib = max(plan.disk_mib, source.disk_mib)
        chain = disks.extend_chain(source.layers, plan.directory, size_mib=wanted_mib)
        os.link(source.directory / disks.ROOT_NAME, plan.directory / disks.ROOT_NAME)
        memory_ready = self.shelf.reach_for(source)
        vmm = self._launch(plan, chain, memory_ready.descriptor, start="incoming")
        try:
            await memory_ready.wait()
            await vmm.restore(source.state)
        except BaseException:
            await vmm.kill()
            raise
        machine = await self._welcome(plan, vmm, started=started, deadline_s=RESTORE_DEADLINE_S)
        if wanted_mib > source.disk_mib:
            try:
                await machine.grow_disk(wanted_mib)
            except BaseException:
                await machine.close()
                raise
        return machine

    async def make_template(self, plan: BootPlan, blank: Path) -> None:
        """Boots a machine in the plan's directory and leaves it there saved and described."""
        chain = disks.extend_chain([blank], plan.directory, size_mib=plan.disk_mib)
        descriptor = memory.create(plan.memory_mib << 20)
        try:
            vmm = self._launch(plan, chain, descriptor, start="boot", shares_memory=True)
            await self._switch_on(vmm)
            machine = await self._welcome(
                plan, vmm, started=time.perf_counter(), deadline_s=BOOT_DEADLINE_S
            )
            try:
                for argv in _WARM_UPS:
                    with contextlib.suppress(GuestRefused):
                        await machine.run(_as_users_do(argv, plan))
                await machine.guest.freeze()
                await asyncio.sleep(_SETTLE_S)
                await vmm.monitor.execute("stop")
                await vmm.save(plan.directory / saved.STATE_FILE, with_memory=False)
            finally:
                await machine.close()
            memory.save(descriptor, plan.directory / saved.MEMORY_FILE)
        finally:
            os.close(descriptor)
        saved.describe(self._described(plan, plan.directory))

    async def condense(
        self, plan: BootPlan, stream: Path, layers: Sequence[Path], into: Path
    ) -> None:
        """Turns the stream of a running machine into a saved one: loaded once, never run."""
        for number, layer in enumerate(layers):
            os.link(layer, disks.layer_path(into, number))
        for directory in (into, plan.directory):
            os.link(layers[0].with_name(disks.ROOT_NAME), directory / disks.ROOT_NAME)
        chain = disks.extend_chain(layers, plan.directory, size_mib=plan.disk_mib)
        descriptor = memory.create(plan.memory_mib << 20)
        try:
            vmm = self._launch(
                plan, chain, descriptor, start="incoming", shares_memory=True, is_held=True
            )
            try:
                await vmm.load_stream(stream)
                await vmm.save(into / saved.STATE_FILE, with_memory=False)
            finally:
                await vmm.kill()
            # Others are served meanwhile; the descriptor is not closed before the thread has done with it.
            work = asyncio.to_thread(memory.save, descriptor, into / saved.MEMORY_FILE)
            await finish(work, deadline_s=_WRITE_DEADLINE_S)
        finally:
            os.close(descriptor)
        await asyncio.to_thread(saved.describe, self._described(plan, into))

    def _shape(self, plan: BootPlan) -> Shape:
        return Shape(
            architecture=self.host.architecture,
            accelerator=self.accelerator,
            memory_mib=plan.memory_mib,
            cpus=plan.cpus,
        )

    def _boot_files(self) -> BootFiles:
        from crucible.images.initramfs import initramfs_for

        kernel = self.kernel.vmlinuz
        if self.accelerator is Accelerator.TCG and self.kernel.unpacked is not None:
            kernel = self.kernel.unpacked
        return BootFiles(
            kernel=kernel,
            initramfs=initramfs_for(self.home, self.agent, self.kernel),
            tsc_khz=self.host.tsc_khz,
        )

    def _described(self, plan: BootPlan, directory: Path) -> SavedMachine:
        return SavedMachine(
            directory=directory,
            memory_mib=plan.memory_mib,
            cpus=plan.cpus,
            accelerator=str(self.accelerator),
            disk_mib=plan.disk_mib,
            kernel_digest=self.kernel.digest,
            agent_digest=self.agent_digest,
            image_digest=plan.image.digest,
            vmm=self.host.version,
        )

    def _launch(
        self,
        plan: BootPlan,
        chain: DiskChain,
        descriptor: int,
        *,
        start: Literal["boot", "incoming"],
        shares_memory: bool = False,
        is_held: bool = False,
    ) -> Vmm:
        root = plan.directory / disks.ROOT_NAME
        if not root.exists():
            os.link(plan.image.root, root)
        # Twice the guest's memory: the first machine to touch a page that is empty in the template is
        # charged for the shared page as well as for its own copy.
        memory_bytes = (2 * plan.memory_mib + VMM_OVERHEAD_MIB) << 20
        caps = limits.Caps(memory_bytes=memory_bytes, cpus=plan.cpus, pids=MOST_THREADS + plan.cpus)
        disk_bytes = plan.disk_mib << 20
        largest = max(disk_bytes + disk_bytes // 64, plan.memory_mib << 20)
        cage = Cage(
            lifetime=plan.lifetime,
            host_uid=plan.host_uid,
            group=limits.make_group(plan.sandbox_id, caps, plan.directory),
            max_file_bytes=largest + _DISK_SLACK,
            max_memory_bytes=(plan.memory_mib + VMM_ADDRESSES_MIB) << 20,
            needs_kvm=self.accelerator is Accelerator.KVM,
        )
        order = Launch(
            directory=plan.directory,
            shape=self._shape(plan),
            chain=chain,
            cage=cage,
            boot=self._boot_files() if start == "boot" else None,
            shares_memory=shares_memory,
            is_held=is_held,
        )
        return launch(
            order, sandbox_id=plan.sandbox_id, program=self.host.program, memory=descriptor
        )

    async def _switch_on(self, vmm: Vmm) -> None:
        try:
            await vmm.switch_on()
        except BaseException:
            await vmm.kill()
            raise

    async def _welcome(
        self, plan: BootPlan, vmm: Vmm, *, started: float, deadline_s: float
    ) -> QemuMachine:
        # Loaded here because QEMU is starting meanwhile: what is loaded now costs no time.
        from crucible.backends.qemu.machine import QemuMachine, meet, use_or_close

        try:
            guest = await meet(plan, vmm, deadline_s=deadline_s, is_fresh=True)
            met = time.perf_counter()
            await use_or_close(guest, guest.prepare(plan.identity))
        except BaseException:
            await vmm.kill()
            raise
        machine = QemuMachine(plan=plan, vmm=vmm, guest=guest)
        machine.add_stage("restore", met - started)
        machine.add_stage("agent", time.perf_counter() - met)
        return machine


def _as_users_do(argv: tuple[bytes, ...], plan: BootPlan) -> Command:
    return Command(
        argv=argv, user=plan.image.user, workdir=plan.image.workdir.encode(), timeout_s=30
    )
