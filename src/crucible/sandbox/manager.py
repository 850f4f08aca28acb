"""Opens, keeps and ends sandboxes. Every step is in the records before it is done on the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from crucible.config import Config
from crucible.errors import (
    BackendUnknown,
    CrucibleError,
    ImageMissing,
    SandboxError,
    SandboxMissing,
    SecretMissing,
    StateDamaged,
    WrongState,
)
from crucible.images.catalog import Image, load_image
from crucible.images.report import NOTICE, Report, silent
from crucible.sandbox import admission, seeding
from crucible.sandbox.backend import BootPlan, Disk, KeepsMachines, Lifetime, Machine
from crucible.sandbox.choice import choose_backend
from crucible.sandbox.doors.doors import Doors
from crucible.sandbox.doors.values import Values
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held as Held
from crucible.sandbox.holding import handle_of, holder, is_held, release_user
from crucible.sandbox.identity import new_identity
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.processes import start_mark
from crucible.sandbox.records import Records, SandboxRecord, sandbox_directory
from crucible.sandbox.spec import SandboxSpec, check_name
from crucible.values import dataclass, field, replace

if TYPE_CHECKING:
    from crucible.network.secrets import Secret

# Brings an image here that is not: in a thread, until the last argument says that nobody waits any more. The second
# tells that nobody named this image.
Fetch = Callable[[str, bool, Callable[[], bool]], Image]

CONSOLE_NAME = "console.log"


@dataclass(slots=True, kw_only=True)
class Manager:
    config: Config
    records: Records
    backends: Sequence[KeepsMachines]
    report: Report = silent
    fetch: Fetch | None = None
    held: dict[str, Held] = field(default_factory=dict)
    secrets: Values = field(default_factory=Values)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _promised_mib: int = 0

    @asynccontextmanager
    async def open(
        self,
        spec: SandboxSpec,
        *,
        name: str | None = None,
        secrets: Sequence[Secret] = (),
        disk: Disk = "fresh",
    ) -> AsyncIterator[Held]:
        """A temporary sandbox: gone with everything it made when the block ends, or this process does."""
        record_id = new_id()
        self.secrets.learn(record_id, secrets)
        record = await self._record_new(
            record_id, check_name(name) if name else f"run-{record_id}", spec, is_temporary=True
        )
        try:
            held = await self._boot(record, lifetime="command", disk=disk)
            try:
                yield held
                await self._keep_volumes(held)
            finally:
                await finish(self._end(held))
        finally:
            self._erase(record)

    async def create(
        self,
        name: str,
        spec: SandboxSpec,
        *,
        host_directory: str | None = None,
        secrets: Sequence[Secret] = (),
    ) -> SandboxRecord:
        record = await self._record_new(
            new_id(), check_name(name), spec, host_directory=host_directory
        )
        self.secrets.learn(record.id, secrets)
        return self.records.update(record.id, state="created")

    async def start(self, name: str, *, secrets: Sequence[Secret] = ()) -> SandboxRecord:
        """Values that are given are learned, also by a sandbox that runs already."""
        async with self.lock(name):
            record = self.find(name)
            self.secrets.learn(record.id, secrets)
            held = self.held.get(record.id)
            known = self.secrets.of(record) if held is not None and secrets else None
            if held is not None and known is not None:
                await held.doors.change_secrets(record.spec, known)
            missing = self.secrets.missing(record)
            if missing:
                raise SecretMissing(name, missing)
            return await self._start(record)

    async def stop(self, name: str, *, grace_s: float = 5.0) -> SandboxRecord:
        async with self.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None:
                return await self._settle_or_miss(record)
            self.records.update(record.id, state="stopping")
            return await self.finish_stop(held, grace_s=grace_s, is_paused=record.state == "paused")

    async def remove(self, name: str, *, force: bool = False) -> None:
        async with self.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is not None and not force:
                raise WrongState(
                    name,
                    record.state,
                    "stopped",
                    hint=f"Stop it first, or `crucible rm --force {name}`",
                )
            self.records.update(record.id, state="removing")
            if held is not None:
                self._let_go(held)
                await finish(self._end(held))
            else:
                await self._bury(record)
            self._erase(record)

    async def pause(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            held = self.running(name)
            await held.machine.pause()
            held.awake.clear()
            held.record = self.records.update(held.record.id, state="paused")
            return held.record

    async def resume(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None or record.state != "paused":
                raise WrongState(name, record.state, "paused")
            await held.machine.resume()
            held.record = self.records.update(record.id, state="running")
            await self.open_doors(held)
            return held.record

    async def open_doors(self, held: Held) -> None:
        """Those that are not open yet. A port that somebody else has taken is no reason to let go of a machine."""
        try:
            await held.doors.open(held.record.spec)
        except CrucibleError as error:
            held.record = self.records.update(held.record.id, note=error.message)

    async def change_network(
        self, name: str, change: Callable[[SandboxSpec], SandboxSpec]
    ) -> SandboxRecord:
        """Gives a sandbox another policy, running or not. What is open and not allowed any more is cut."""
        async with self.lock(name):
            record = self.find(name)
            record = self.records.change_spec(record.id, change(record.spec))
            held = self.held.get(record.id)
            if held is not None:
                held.record = record
                # One that is paused could not answer; it gets what it lacks when it goes on.
                if held.awake.is_set() or held.doors.has_network or record.spec.network == "off":
                    await held.doors.change_network(record.spec)
            return record

    async def image(self, name: str, *, is_guess: bool = False) -> Image:
        """The image of that name; fetched first if it is not here and there is somebody to fetch it."""
        try:
            return load_image(self.config.home, name)
        except ImageMissing:
            fetch = self.fetch
            if fetch is None:
                raise
        from crucible.sandbox.abandonable import beside

        is_stopped = False
        try:
            return await beside(lambda: fetch(name, is_guess, lambda: is_stopped))
        finally:
            is_stopped = True

    def find(self, name: str) -> SandboxRecord:
        """The record of a sandbox that may be changed here: not one of a `run` in another process."""
        record = self.records.find(name)
        if record.is_temporary and is_held(record):
            raise WrongState(
                name, "a temporary sandbox", "named", hint="It goes when its command ends"
            )
        return record

    def running(self, name: str) -> Held:
        """The sandbox, if it can be used right now."""
        record = self.records.find(name)
        held = self.held.get(record.id)
        if held is not None and record.state == "running":
            return held
        if held is None and record.state == "running":
            raise WrongState(
                name,
                "running, but not in our hands",
                "running",
                hint=f"`crucible stop {name}` ends it",
            )
        verb = "resume" if record.state == "paused" else "start"
        raise WrongState(name, record.state, "running", hint=f"Try `crucible {verb} {name}` first")

    async def awake(self, name: str) -> Held:
        """The sandbox, once it can be used: one that is paused is waited for."""
        while (held := self.held.get(self.records.find(name).id)) and not held.awake.is_set():
            await held.awake.wait()
        return self.running(name)

    def lock(self, name: str) -> asyncio.Lock:
        """Whoever changes a sandbox's state holds this. It exists as long as somebody holds or wants it."""
        return self._locks.setdefault(name, asyncio.Lock())

    def plan_of(self, held: Held) -> BootPlan:
        return self.plan(held.record, held.image, lifetime="sandbox", disk="kept")

    async def boot_copy(
        self, record: SandboxRecord, backend: KeepsMachines, snapshot: Path
    ) -> Held:
        """Boots a sandbox whose record is new from a snapshot. It is not there for others yet."""
        async with self.lock(record.name):
            record = self.records.find(record.name)
            image = load_image(self.config.home, record.spec.image)
            plan = self.plan(record, image, lifetime="sandbox", disk="fresh")
            try:
                with self._promised(record.spec.memory_mib):
                    machine = await backend.restore(plan, snapshot)
                held = self._booted(record, machine, backend, image)
            except BaseException:
                backend.bury(record.directory, record.id, None)
                raise
            held.has_strangers = True
            await held.furnish()
            return held

    async def record_copy(
        self,
        name: str,
        spec: SandboxSpec,
        backend: KeepsMachines,
        host_directory: str | None = None,
    ) -> SandboxRecord:
        """The record of a copy that is about to start from a snapshot."""
        # A volume has one writer: the copy keeps the files, and the volume stays with its original.
        mounts = tuple(text for text in spec.mounts if not text.endswith((":volume", ":volume-ro")))
        own = replace(spec, ports=tuple(_any_free(text) for text in spec.ports), mounts=mounts)
        return await self._record_new(
            new_id(), check_name(name), own, host_directory=host_directory, backend=backend
        )

    async def discard(self, record: SandboxRecord) -> None:
        """Undoes a sandbox that was never reported to anybody."""
        async with self.lock(record.name):
            held = self.held.get(record.id)
            if held is not None:
                self._let_go(held)
                await self._end(held)
            self._erase(record)

    def _claim_volumes(self, record: SandboxRecord) -> None:
        from crucible.sandbox.mounts import parse_mount
        from crucible.sandbox.volumes import refuse_second_writer

        for mount in map(parse_mount, record.spec.mounts):
            if mount.kind == "volume":
                refuse_second_writer(mount.source, self.records.sandboxes(), own_id=record.id)

    async def _keep_volumes(self, held: Held) -> None:
        """What cannot be kept is told, and is no reason not to stop."""
        if not held.record.spec.mounts:
            return
        from crucible.sandbox.mounting import keep_volumes

        try:
            await keep_volumes(held.machine.files, held.record.spec, self.config.home)
        except (CrucibleError, OSError) as error:
            why = error.message if isinstance(error, CrucibleError) else str(error)
            self.report(NOTICE, f"warning: A volume is as it was before: {why}")

    async def furnish(self, held: Held, *, is_first: bool) -> None:
        """What a machine gets once its workspace is in it, before its first command."""
        record = held.record
        if record.spec.mounts:
            from crucible.sandbox.mounting import copy_mounts

            self._claim_volumes(record)
            await copy_mounts(
                held.machine, record.spec, held.image, record.directory,
                own_state=self.config.home, is_first=is_first, report=self.report,
            )  # fmt: skip
        await held.furnish()

    def mark_running(self, held: Held) -> SandboxRecord:
        held.record = self.records.update(held.record.id, state="running", has_disk=True)
        return held.record

    def hold(self, held: Held) -> None:
        self.held[held.record.id] = held
        held.watcher = asyncio.create_task(self._watch(held))

    async def finish_stop(
        self, held: Held, *, grace_s: float, is_paused: bool = False
    ) -> SandboxRecord:
        """Shuts a machine down whose record says that it is stopping."""
        self._let_go(held)
        try:
            if is_paused:
                with contextlib.suppress(SandboxError):
                    await held.machine.resume()
            await self._keep_volumes(held)
            await held.machine.shutdown(grace_s)
        except Exception:
            await finish(self._end(held))
            self.mark_stopped(held.record, note="it could not be shut down and was ended")
            raise
        finally:
            held.log.close()
        return self.mark_stopped(held.record)

    async def settle(self, record: SandboxRecord) -> SandboxRecord | None:
        """Brings a record whose machine is in nobody's hands to what is so; None if nothing is left of it.

        What was never reported done is undone; what was begun to be removed is removed.
        """
        if record.state in ("created", "stopped") and not record.is_temporary:
            return record
        await self._bury(record)
        if record.is_temporary or record.state in ("creating", "removing"):
            self._erase(record)
            return None
        if record.state == "starting":
            return self.mark_stopped(record, note="its start was cut short")
        if record.state == "stopping":
            return self.mark_stopped(record)
        return self.mark_stopped(record, note="its machine ended while nobody held it")

    def mark_stopped(self, record: SandboxRecord, *, note: str = "") -> SandboxRecord:
        """Whether it has a disk to start from again decides what it is now."""
        current = self.records.find(record.name)
        if not current.has_disk:
            _empty(record.directory)
        stopped = self.records.update(
            record.id, state="stopped" if current.has_disk else "created", pid=None, pid_started="",
            pid_detail="", started_at=None, host_uid=None, note=note,
        )  # fmt: skip
        release_user(current)
        return stopped

    async def let_all_go(self) -> None:
        """Leaves every machine running, for another process to take over."""
        for held in list(self.held.values()):
            self._let_go(held)
            held.log.close()
            await held.machine.detach()

    async def _start(self, record: SandboxRecord) -> SandboxRecord:
        if record.id in self.held:
            if record.state == "paused":
                raise WrongState(record.name, "paused", "stopped",
                                 hint=f"Use `crucible resume {record.name}`")  # fmt: skip
            return record
        record = await self._settle_or_miss(record)
        is_first = not record.has_disk
        record = self.records.update(
            record.id, state="starting", note="", host_uid=self._claim_user(), **holder()
        )
        try:
            held = await self._boot(
                record, lifetime="sandbox", disk="fresh" if is_first else "kept"
            )
            if is_first and record.host_directory:
                source = Path(record.host_directory)
                await seeding.upload(
                    held.machine, source, held.image, record.directory, self.report,
                    own_state=self.config.home,
                    include_credentials=record.spec.include_credentials,
                )  # fmt: skip
            await self.furnish(held, is_first=is_first)
        except BaseException:
            await finish(self._abandon_start(record))
            raise
        return self.mark_running(held)

    async def _abandon_start(self, record: SandboxRecord) -> None:
        held = self.held.get(record.id)
        if held is not None:
            self._let_go(held)
            await self._end(held)
        self.mark_stopped(record)

    async def _settle_or_miss(self, record: SandboxRecord) -> SandboxRecord:
        settled = await self.settle(record)
        if settled is None:
            raise SandboxMissing(record.name)
        return settled

    async def _boot(self, record: SandboxRecord, *, lifetime: Lifetime, disk: Disk) -> Held:
        """Leaves nothing running if it fails or is cancelled."""
        backend = self.backend_named(record.backend)
        image = load_image(self.config.home, record.spec.image)
        plan = self.plan(record, image, lifetime=lifetime, disk=disk)
        record.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._promised(record.spec.memory_mib):
                machine = await backend.boot(plan)
            return self._booted(record, machine, backend, image)
        except BaseException:
            backend.bury(record.directory, record.id, None)
            raise

    def _booted(
        self, record: SandboxRecord, machine: Machine, backend: KeepsMachines, image: Image
    ) -> Held:
        handle = machine.handle
        record = self.records.update(
            record.id, pid=handle.pid, pid_started=handle.started, pid_detail=handle.detail,
            started_at=time.time(), state="running" if record.is_temporary else record.state,
        )  # fmt: skip
        held = Held(
            record=record, machine=machine, backend=backend, image=image,
            log=OutputLog(record.directory),
            doors=Doors("" if record.is_temporary else record.name, machine, record.directory),
        )  # fmt: skip
        held.doors.secrets = self.secrets.of(record)
        if not record.is_temporary:
            held.log.mark_machine()
            self.hold(held)
        return held

    def _let_go(self, held: Held) -> None:
        """Its commands may still write to its log; whoever calls this closes that."""
        held.doors.close()
        self.held.pop(held.record.id, None)
        held.awake.set()
        if held.watcher is not None:
            held.watcher.cancel()

    async def _end(self, held: Held) -> None:
        held.doors.close()
        held.log.close()
        try:
            await held.machine.close()
        except Exception:
            held.backend.bury(held.record.directory, held.record.id, held.machine.handle)
            raise

    async def _bury(self, record: SandboxRecord) -> None:
        backend = self.backend_named(record.backend)
        await asyncio.to_thread(backend.bury, record.directory, record.id, handle_of(record))

    async def _watch(self, held: Held) -> None:
        """A machine that ends by itself becomes a stopped sandbox with the reason written down."""
        why = await held.machine.ended()
        async with self.lock(held.record.name):
            if self.held.get(held.record.id) is not held:
                return
            with contextlib.suppress(SandboxError, OSError):
                (held.record.directory / CONSOLE_NAME).write_bytes(await held.machine.console())
            del self.held[held.record.id]
            held.awake.set()
            try:
                await self._end(held)
            finally:
                self.mark_stopped(held.record, note=why)

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
        image = await self.image(spec.image)
        is_copy = backend is not None
        if backend is None:
            backend, isolation = await choose_backend(self.backends, spec)
        else:
            isolation = await backend.isolation()
        admission.admit(spec.memory_mib, self._promised_mib)
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
            host_uid=self._claim_user() if is_temporary or is_copy else None,
            holder_pid=os.getpid(),
            holder_started=start_mark(os.getpid()) or "",
        )
        try:
            self.records.add(record)
        except BaseException:
            release_user(record)
            raise
        try:
            record.directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            self._erase(record)
            raise StateDamaged(f"{record.directory} cannot be made: {error}") from error
        return record

    def _claim_user(self) -> int | None:
        """For a machine that is about to start. Only root can give it one, and only root needs to."""
        if os.geteuid() != 0:
            return None
        from crucible.sandbox import host_users

        return host_users.claim(self.records.host_uids())

    @contextmanager
    def _promised(self, memory_mib: int) -> Iterator[None]:
        """Until a machine has taken what it takes at once, others must not be promised the same."""
        admission.admit(memory_mib, self._promised_mib)
        self._promised_mib += admission.FRESH_MIB
        try:
            yield
        finally:
            self._promised_mib -= admission.FRESH_MIB

    def _erase(self, record: SandboxRecord) -> None:
        shutil.rmtree(record.directory, ignore_errors=True)
        self.secrets.forget(record.id)
        self.records.delete(record.id)
        release_user(record)

    def plan(
        self, record: SandboxRecord, image: Image, *, lifetime: Lifetime, disk: Disk
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
            disk=disk,
            host_uid=record.host_uid,
        )

    def backend_named(self, name: str) -> KeepsMachines:
        for backend in self.backends:
            if backend.name == name:
                return backend
        raise BackendUnknown(name, tuple(backend.name for backend in self.backends))


def new_id() -> str:
    return os.urandom(6).hex()


def _empty(directory: Path) -> None:
    """A first start that did not succeed leaves nothing that a second one could trip over."""
    with contextlib.suppress(FileNotFoundError):
        for path in directory.iterdir():
            path.unlink()


def _hostname(name: str) -> str:
    return name.replace("_", "-").replace(".", "-")[:63].strip("-") or "sandbox"


def _any_free(port: str) -> str:
    """A copy cannot have the host's port that its original has."""
    from crucible.sandbox.doors.ports import parse_port

    return str(parse_port(port)._replace(host=0))
