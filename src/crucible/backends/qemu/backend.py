"""The QEMU backend: plans in, machines out. One instance is bound to one accelerator."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.backends.qemu import disks, host, saved
from crucible.backends.qemu.command import Accelerator
from crucible.backends.qemu.foundry import BOOT_DEADLINE_S, Foundry
from crucible.backends.qemu.saved import SavedMachine
from crucible.backends.qemu.shelf import MemoryShelf
from crucible.backends.qemu.templates import TemplateStore, template_key
from crucible.backends.qemu.vmm import Vmm, bury, is_alive
from crucible.errors import (
    AgentMissing,
    BootFailed,
    CrucibleError,
    PrerequisiteMissing,
    StateDamaged,
    TemplateDamaged,
    Unsupported,
)
from crucible.images.catalog import load_image
from crucible.images.kernel import load_kernel
from crucible.images.report import Report, silent
from crucible.sandbox.backend import BootPlan, Machine, MachineHandle, Missing
from crucible.sandbox.identity import new_identity
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.scratch import scratch_directory
from crucible.sandbox.spec import DEFAULT_DISK_MIB, SMALLEST_DISK_MIB
from crucible.values import replace

if TYPE_CHECKING:
    from crucible.backends.qemu.machine import QemuMachine

# For a device: one that does not work as a rule keeps silent for ever.
_PROBE_DEADLINE_S = 8.0
_ADOPT_DEADLINE_S = 60.0
_TEMPLATE_GENERATION = 9


class QemuBackend:
    """Implements `sandbox.backend.KeepsMachines`."""

    def __init__(
        self,
        *,
        home: Path,
        agent: Path,
        accelerator: Accelerator,
        template_limit_mib: int,
        report: Report = silent,
    ) -> None:
        self._home = home
        self._agent = agent
        self._accelerator = accelerator
        self._cache = home / "cache"
        self._shelf = MemoryShelf()
        self._templates = TemplateStore(
            home / "templates", limit_mib=template_limit_mib, report=report
        )
        self._turns = asyncio.Semaphore(max(2, os.cpu_count() or 2))

    @property
    def name(self) -> str:
        return f"qemu-{self._accelerator}"

    @property
    def is_remote(self) -> bool:
        return False

    async def isolation(self) -> Isolation:
        return host.isolation_of(self._accelerator)

    async def is_worth_trying(self) -> bool:
        return host.is_plausible(self._accelerator)

    async def probe(self) -> Missing | None:
        """For a hardware accelerator the answer comes from a real boot, once per boot of the host."""
        try:
            host.find_host(self._cache)
        except PrerequisiteMissing as error:
            return Missing(what=error.message, fix=error.hint, is_prerequisite=True)
        if self._accelerator is Accelerator.TCG:
            return None
        why = host.unusable_device(self._accelerator) or await self._verdict()
        return None if why is None else Missing(what=why, fix="Use --backend qemu-tcg")

    async def boot(self, plan: BootPlan) -> QemuMachine:
        queued = time.perf_counter()
        async with self._turns:
            began = time.perf_counter()
            if plan.disk == "kept":
                machine = await self._boot_kept(plan)
                found = began
            elif plan.disk == "once":
                machine = await self._boot_once(plan)
                found = began
            else:
                try:
                    machine, found = await self._restore_template(plan)
                except (FileNotFoundError, StateDamaged):
                    # Removed since it was found, as its image was or to make room: one more is made.
                    machine, found = await self._restore_template(plan)
        machine.add_stage("queue", began - queued)
        machine.add_stage("image", found - began)
        return machine

    async def restore(self, plan: BootPlan, snapshot: Path) -> QemuMachine:
        async with self._turns:
            source = saved.load(snapshot)
            self._check_fits(source, plan)
            return await self._foundry.restore(plan, source)

    async def adopt(self, plan: BootPlan, handle: MachineHandle, *, is_paused: bool) -> QemuMachine:
        """A machine that stands still by request is set going for the meeting, then stopped again."""
        from crucible.backends.qemu.layers import LiveDisk
        from crucible.backends.qemu.machine import QemuMachine, meet_again

        vmm = Vmm(sandbox_id=plan.sandbox_id, directory=plan.directory, handle=handle)
        vmm.name = plan.name
        disk = LiveDisk.of(plan, vmm.monitor)
        try:
            await vmm.give_up_saving()
            await disk.give_up_merging()
            await vmm.proceed()
            await disk.tidy()
            guest = await meet_again(plan, vmm, deadline_s=_ADOPT_DEADLINE_S, is_paused=is_paused)
        except BootFailed as error:
            vmm.detach()
            if not vmm.has_ended:
                raise
            raise await vmm.gone() from error
        except BaseException:
            vmm.detach()
            raise
        return QemuMachine(plan=plan, vmm=vmm, guest=guest)

    async def snapshot(self, machine: Machine, plan: BootPlan, into: Path) -> None:
        """Saves a running machine into an empty directory. It stands still only while its memory is written."""
        from crucible.backends.qemu.machine import QemuMachine

        if not isinstance(machine, QemuMachine):
            raise Unsupported(f"{self.name} can only save machines of its own")
        with scratch_directory(self._home, "snapshot") as scratch:
            stream = scratch / "stream"
            layers = await machine.freeze_into(stream)
            loader = replace(
                plan,
                sandbox_id=scratch.name,
                directory=scratch,
                lifetime="command",
                disk_mib=disks.layer_size(layers[-1]) >> 20,
            )
            await self._foundry.condense(loader, stream, layers, into)

    def pack_snapshot(self, directory: Path, target: Path, facts: dict[str, Any]) -> None:
        from crucible.backends.qemu import parcel

        parcel.pack(directory, target, facts)

    def unpack_snapshot(self, source: Path, directory: Path) -> dict[str, Any]:
        from crucible.backends.qemu import parcel

        return parcel.unpack(source, directory)

    async def template(self, plan: BootPlan) -> SavedMachine:
        """The template this plan starts from, made now if there is none."""
        blank_mib = _blank_mib(plan.disk_mib)
        foundry = self._foundry
        facts = {
            "generation": _TEMPLATE_GENERATION,
            "image": plan.image.digest,
            "kernel": foundry.kernel.digest,
            "agent": foundry.agent_digest,
            "vmm": foundry.host.version,
            "clock": foundry.host.tsc_khz,
            "processor": host.processor_mark(self._accelerator),
            "accelerator": str(self._accelerator),
            "memory": plan.memory_mib,
            "cpus": plan.cpus,
            "blank": blank_mib,
        }
        key = template_key(facts)
        # Another home's machine is not ours.
        name = f"template-{key}-{template_key({'home': str(self._home)})[:8]}"

        async def make(directory: Path) -> None:
            blank = await asyncio.to_thread(disks.make_blank, self._home / "blanks", blank_mib)
            await foundry.make_template(
                replace(
                    plan,
                    sandbox_id=name,
                    name="template",
                    directory=directory,
                    disk_mib=blank_mib,
                    lifetime="command",
                    identity=new_identity("template"),
                ),
                blank,
            )

        # A maker that was killed may have left its machine's limits behind.
        return await self._templates.obtain(
            key, make, clear=lambda directory: bury(directory, name, None)
        )

    def is_alive(self, handle: MachineHandle) -> bool:
        return is_alive(handle)

    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        bury(directory, sandbox_id, handle)

    def forget_saved(self, snapshot: Path) -> None:
        self._shelf.drop(snapshot)

    def close(self) -> None:
        self._shelf.close()

    async def _restore_template(self, plan: BootPlan) -> tuple[QemuMachine, float]:
        """The machine, and when its template was at hand."""
        disks.clear(plan.directory)
        template = await self.template(plan)
        found = time.perf_counter()
        return await self._foundry.restore(plan, template), found

    async def _boot_kept(self, plan: BootPlan) -> QemuMachine:
        chain = disks.close_gaps(plan.directory)
        grows = (plan.disk_mib << 20) > chain.size_bytes
        machine = await self._foundry.boot(plan, chain)
        if grows:
            try:
                await machine.grow_disk(plan.disk_mib)
            except BaseException:
                await machine.close()
                raise
        return machine

    async def _boot_once(self, plan: BootPlan) -> QemuMachine:
        """Cold, without a template."""
        disks.clear(plan.directory)
        blank_mib = _blank_mib(plan.disk_mib)
        blank = await asyncio.to_thread(disks.make_blank, self._home / "blanks", blank_mib)
        disks.extend_chain([blank], plan.directory, size_mib=blank_mib)
        return await self._boot_kept(plan)

    async def _verdict(self) -> str | None:
        remembered = host.recall(self._cache, self._accelerator)
        if remembered is None:
            why = await self.try_boot()
            remembered = host.Verdict(accelerator=self._accelerator, why=why)
            host.remember(self._cache, remembered)
        return remembered.why

    async def try_boot(self) -> str | None:
        """Boots a machine to "agent ready" under a deadline and throws it away. None, or why not."""
        with scratch_directory(self._home, "probe") as directory, _trial_user() as uid:
            try:
                blank = disks.make_blank(self._home / "blanks", SMALLEST_DISK_MIB)
                chain = disks.extend_chain([blank], directory, size_mib=SMALLEST_DISK_MIB)
                plan = self._probe_plan(directory, uid)
                is_emulated = self._accelerator is Accelerator.TCG
                deadline_s = BOOT_DEADLINE_S if is_emulated else _PROBE_DEADLINE_S
                machine = await self._foundry.boot(plan, chain, deadline_s=deadline_s)
                await machine.close()
            except CrucibleError as error:
                return error.message
        return None

    @cached_property
    def _foundry(self) -> Foundry:
        kernel = load_kernel(self._home)
        return Foundry(
            host=host.find_host(self._cache),
            accelerator=self._accelerator,
            kernel=kernel,
            home=self._home,
            agent=self._agent,
            agent_digest=self._agent_digest(),
            shelf=self._shelf,
        )

    def _agent_digest(self) -> str:
        if not self._agent.exists():
            raise AgentMissing(str(self._agent))
        return host.file_digest(self._cache, self._agent)

    def _probe_plan(self, directory: Path, host_uid: int | None) -> BootPlan:
        return BootPlan(
            sandbox_id=directory.name,
            name="probe",
            directory=directory,
            image=load_image(self._home, "base"),
            memory_mib=256,
            cpus=1,
            disk_mib=SMALLEST_DISK_MIB,
            identity=new_identity("probe"),
            lifetime="command",
            host_uid=host_uid,
        )

    def _check_fits(self, source: SavedMachine, plan: BootPlan) -> None:
        """A state only fits the very VMM, kernel and accelerator that wrote it, and its own size."""
        if (source.memory_mib, source.cpus) != (plan.memory_mib, plan.cpus):
            raise TemplateDamaged(
                f"it has {source.memory_mib} MiB and {source.cpus} processors, not what it is said to have"
            )
        foundry = self._foundry
        ours = (foundry.host.version, str(self._accelerator))
        theirs = (source.vmm, source.accelerator)
        if ours != theirs:
            raise TemplateDamaged(f"it was saved by {theirs[0]} ({theirs[1]}), here is {ours[0]}")


@contextmanager
def _trial_user() -> Iterator[int | None]:
    """A user of the host for a machine that has no record."""
    if os.geteuid() != 0:
        yield None
        return
    from crucible.sandbox import host_users

    uid = host_users.claim()
    try:
        yield uid
    finally:
        host_users.release(uid)


def _blank_mib(disk_mib: int) -> int:
    return DEFAULT_DISK_MIB if disk_mib >= DEFAULT_DISK_MIB else SMALLEST_DISK_MIB
