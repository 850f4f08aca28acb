"""Opens, keeps and ends sandboxes. Every step is in the records before it is done on the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crucible.config import Config
from crucible.errors import (
    BackendUnknown,
    CrucibleError,
    SandboxMissing,
    StateDamaged,
    WrongState,
)
from crucible.images.catalog import Image, load_image
from crucible.images.report import Report, silent
from crucible.sandbox import admission, processes, seeding
from crucible.sandbox.backend import BootPlan, KeepsMachines, Lifetime, Machine, MachineHandle
from crucible.sandbox.choice import choose_backend
from crucible.sandbox.identity import new_identity
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import Records, SandboxRecord, sandbox_directory
from crucible.sandbox.spec import SandboxSpec, check_name

FIRST_HOST_UID = 1_900_000_001


@dataclass(slots=True, kw_only=True)
class Held:
    """A running sandbox in this process's hands."""

    record: SandboxRecord
    machine: Machine
    backend: KeepsMachines
    image: Image
    log: OutputLog
    watcher: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class Manager:
    config: Config
    records: Records
    backends: Sequence[KeepsMachines]
    report: Report = silent
    held: dict[str, Held] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _promised_mib: int = 0

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, name: str | None = None) -> AsyncIterator[Held]:
        """A temporary sandbox: gone with everything it made when the block ends, or this process does."""
        record_id = new_id()
        record = await self._record_new(
            record_id, check_name(name) if name else f"run-{record_id}", spec, is_temporary=True
        )
        try:
            held = await self._boot(record, lifetime="command", disk_is_kept=False)
            try:
                yield held
            finally:
                await asyncio.shield(held.machine.close())
                held.log.close()
        finally:
            self._erase(record)

    async def create(
        self, name: str, spec: SandboxSpec, *, host_directory: str | None = None
    ) -> SandboxRecord:
        record = await self._record_new(
            new_id(), check_name(name), spec, host_directory=host_directory
        )
        return self.records.update(record.id, state="created")

    async def start(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            return await self._start(self.records.find(name))

    async def stop(self, name: str, *, grace_s: float = 5.0) -> SandboxRecord:
        async with self.lock(name):
            record = self.records.find(name)
            held = self.held.get(record.id)
            if held is None:
                return await self._settle_dead(record)
            self.records.update(record.id, state="stopping")
            self._let_go(held)
            if record.state == "paused":
                await held.machine.resume()
            await held.machine.shutdown(grace_s)
            return self._mark_stopped(record)

    async def remove(self, name: str, *, force: bool = False) -> None:
        async with self.lock(name):
            record = self.records.find(name)
            held = self.held.get(record.id)
            if held is not None and not force:
                raise WrongState(
                    name, record.state, "stopped", hint=f"Stop it first, or `crucible rm --force {name}`"
                )
            self.records.update(record.id, state="removing")
            if held is not None:
                self._let_go(held)
                await held.machine.close()
            self._erase(record)
        self._locks.pop(name, None)

    async def pause(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            held = self.running(name)
            await held.machine.pause()
            held.record = self.records.update(held.record.id, state="paused")
            return held.record

    async def resume(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            record = self.records.find(name)
            held = self.held.get(record.id)
            if held is None or record.state != "paused":
                raise WrongState(name, record.state, "paused")
            await held.machine.resume()
            held.record = self.records.update(record.id, state="running")
            return held.record

    def running(self, name: str) -> Held:
        """The sandbox, if it can be used right now."""
        record = self.records.find(name)
        held = self.held.get(record.id)
        if held is None or record.state != "running":
            verb = "resume" if record.state == "paused" else "start"
            raise WrongState(
                name, record.state, "running", hint=f"Try `crucible {verb} {name}` first"
            )
        return held

    def lock(self, name: str) -> asyncio.Lock:
        """Whoever changes a sandbox's state holds this."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def adopt(self, record: SandboxRecord) -> None:
        """Takes over a machine whose holder died."""
        backend = self.backend_named(record.backend)
        handle = handle_of(record)
        if handle is None or not backend.is_alive(handle):
            await self._settle_dead(record)
            return
        image = load_image(self.config.home, record.spec.image)
        plan = self._plan(record, image, lifetime="sandbox", disk_is_kept=True)
        try:
            machine = await backend.adopt(plan, handle, is_paused=record.state == "paused")
        except CrucibleError as error:
            self.records.update(record.id, state="broken", note=error.message)
            return
        state = "paused" if record.state == "paused" else "running"
        record = self.records.update(record.id, state=state, **_holder())
        self._hold(Held(
            record=record, machine=machine, backend=backend, image=image,
            log=OutputLog(record.directory),
        ))  # fmt: skip

    async def hold_copy(
        self, record: SandboxRecord, backend: KeepsMachines, snapshot: Path
    ) -> SandboxRecord:
        """Boots a sandbox whose record is new from a snapshot."""
        image = load_image(self.config.home, record.spec.image)
        plan = self._plan(record, image, lifetime="sandbox", disk_is_kept=False)
        admission.admit(record.spec.memory_mib, self._promised_mib)
        try:
            machine = await backend.restore(plan, snapshot)
        except BaseException:
            backend.bury(record.directory, record.id, None)
            self._erase(record)
            raise
        self._booted(record, machine, backend, image)
        return self._mark_running(record)

    async def record_new_copy(
        self,
        name: str,
        spec: SandboxSpec,
        backend: KeepsMachines,
        host_directory: str | None = None,
    ) -> SandboxRecord:
        """The record of a copy that is about to start from a snapshot."""
        return await self._record_new(
            new_id(), check_name(name), spec, host_directory=host_directory, backend=backend
        )

    def plan_of(self, held: Held) -> BootPlan:
        return self._plan(held.record, held.image, lifetime="sandbox", disk_is_kept=True)

    async def let_all_go(self) -> None:
        """Leaves every machine running, for another process to take over."""
        for held in list(self.held.values()):
            self._let_go(held)
            await held.machine.detach()

    async def _start(self, record: SandboxRecord) -> SandboxRecord:
        if record.id in self.held:
            if record.state == "paused":
                raise WrongState(record.name, "paused", "stopped",
                                 hint=f"Use `crucible resume {record.name}`")  # fmt: skip
            return record
        if record.state not in ("created", "stopped"):
            record = await self._settle_dead(record)
        is_first = not record.has_disk
        record = self.records.update(record.id, state="starting", note="", **_holder())
        try:
            held = await self._boot(record, lifetime="sandbox", disk_is_kept=not is_first)
        except BaseException:
            self._mark_stopped(record)
            raise
        if is_first and record.host_directory:
            await self._seed(held, Path(record.host_directory))
        return self._mark_running(record)

    def _mark_running(self, record: SandboxRecord) -> SandboxRecord:
        record = self.records.update(record.id, state="running", has_disk=True)
        self.held[record.id].record = record
        return record

    async def _seed(self, held: Held, source: Path) -> None:
        try:
            await seeding.upload(held.machine, source, held.image, held.record.directory, self.report)
        except BaseException:
            self._let_go(held)
            await asyncio.shield(held.machine.close())
            self._mark_stopped(held.record)
            raise

    async def _boot(
        self, record: SandboxRecord, *, lifetime: Lifetime, disk_is_kept: bool
    ) -> Held:
        backend = self.backend_named(record.backend)
        image = load_image(self.config.home, record.spec.image)
        plan = self._plan(record, image, lifetime=lifetime, disk_is_kept=disk_is_kept)
        memory_mib = record.spec.memory_mib
        admission.admit(memory_mib, self._promised_mib)
        self._promised_mib += memory_mib
        try:
            record.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            machine = await backend.boot(plan)
        finally:
            self._promised_mib -= memory_mib
        return self._booted(record, machine, backend, image)

    def _booted(
        self, record: SandboxRecord, machine: Machine, backend: KeepsMachines, image: Image
    ) -> Held:
        handle = machine.handle
        record = self.records.update(
            record.id, pid=handle.pid, pid_started=handle.started, pid_detail=handle.detail,
            started_at=time.time(), state="running" if record.is_temporary else "starting",
        )  # fmt: skip
        held = Held(
            record=record, machine=machine, backend=backend, image=image,
            log=OutputLog(record.directory),
        )  # fmt: skip
        if not record.is_temporary:
            self._hold(held)
        return held

    def _hold(self, held: Held) -> None:
        self.held[held.record.id] = held
        held.watcher = asyncio.create_task(self._watch(held))

    def _let_go(self, held: Held) -> None:
        self.held.pop(held.record.id, None)
        if held.watcher is not None:
            held.watcher.cancel()
        held.log.close()

    async def _watch(self, held: Held) -> None:
        """A machine that ends by itself becomes a stopped sandbox with the reason written down."""
        why = await held.machine.ended()
        async with self.lock(held.record.name):
            if self.held.get(held.record.id) is not held:
                return
            with contextlib.suppress(CrucibleError):
                (held.record.directory / "console.log").write_bytes(await held.machine.console())
            self.held.pop(held.record.id)
            held.log.close()
            await held.machine.close()
            self._mark_stopped(held.record, note=why)

    async def _record_new(
        self,
        record_id: str,
        name: str,
        spec: SandboxSpec,
        *,
        is_temporary: bool = False,
        host_directory: str | None = None,
        backend: KeepsMachines | None = None,
    ) -> SandboxRecord:
        image = load_image(self.config.home, spec.image)
        if backend is None:
            backend, isolation = await choose_backend(self.backends, spec)
        else:
            isolation = await backend.isolation()
        admission.admit(spec.memory_mib, self._promised_mib)
        holder_pid, holder_started = _myself()
        record = SandboxRecord(
            id=record_id,
            name=name,
            state="starting" if is_temporary else "creating",
            spec=spec,
            directory=sandbox_directory(self.config.home, record_id),
            created_at=time.time(),
            backend=backend.name,
            isolation=str(isolation),
            image_digest=image.digest,
            is_temporary=is_temporary,
            host_directory=host_directory,
            holder_pid=holder_pid,
            holder_started=holder_started,
        )
        first_uid = FIRST_HOST_UID if os.geteuid() == 0 else None
        record = self.records.add(record, first_uid=first_uid)
        try:
            record.directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            self.records.delete(record.id)
            raise StateDamaged(f"{record.directory} cannot be made: {error}") from error
        return record

    async def _settle_dead(self, record: SandboxRecord) -> SandboxRecord:
        """Brings a record whose machine is in nobody's hands back to what is so."""
        backend = self.backend_named(record.backend)
        await asyncio.to_thread(backend.bury, record.directory, record.id, handle_of(record))
        if record.is_temporary or record.state == "removing":
            self._erase(record)
            raise SandboxMissing(record.name)
        if record.state == "creating":
            return self.records.update(record.id, state="created")
        if record.state in ("created", "stopped"):
            return record
        return self._mark_stopped(record, note="its machine ended while nobody held it")

    def _mark_stopped(self, record: SandboxRecord, *, note: str = "") -> SandboxRecord:
        current = self.records.find(record.name)
        return self.records.update(
            record.id, state="stopped" if current.has_disk else "created", pid=None, pid_started="",
            pid_detail="", started_at=None, note=note,
        )  # fmt: skip

    def _erase(self, record: SandboxRecord) -> None:
        shutil.rmtree(record.directory, ignore_errors=True)
        self.records.delete(record.id)

    def _plan(
        self, record: SandboxRecord, image: Image, *, lifetime: Lifetime, disk_is_kept: bool
    ) -> BootPlan:
        return BootPlan(
            sandbox_id=record.id,
            name=record.name,
            directory=record.directory,
            image=image,
            memory_mib=record.spec.memory_mib,
            cpus=record.spec.cpus,
            disk_mib=record.spec.disk_mib,
            identity=new_identity(_hostname(record.name)),
            lifetime=lifetime,
            disk="kept" if disk_is_kept else "fresh",
            host_uid=record.host_uid,
        )

    def backend_named(self, name: str) -> KeepsMachines:
        for backend in self.backends:
            if backend.name == name:
                return backend
        raise BackendUnknown(name, tuple(backend.name for backend in self.backends))


def new_id() -> str:
    return os.urandom(6).hex()


def handle_of(record: SandboxRecord) -> MachineHandle | None:
    if record.pid is None:
        return None
    return MachineHandle(pid=record.pid, started=record.pid_started, detail=record.pid_detail)


def _myself() -> tuple[int, str]:
    pid = os.getpid()
    return pid, processes.start_mark(pid) or ""


def _holder() -> dict[str, object]:
    pid, started = _myself()
    return {"holder_pid": pid, "holder_started": started}


def _hostname(name: str) -> str:
    return name.replace("_", "-").replace(".", "-")[:63].strip("-") or "sandbox"
