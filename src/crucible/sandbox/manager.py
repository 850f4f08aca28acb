"""Opens, keeps and ends sandboxes. Every step is in the records before it is done on the host."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from crucible.config import Config
from crucible.errors import (
    BootFailed,
    CrucibleError,
    GuestSilent,
    ImageMissing,
    SandboxError,
    SandboxMissing,
    SecretMissing,
    SetupError,
    TemplateDamaged,
    Unsupported,
    WrongState,
)
from crucible.images.catalog import Image, load_image, load_images
from crucible.images.report import NOTICE, Report, silent
from crucible.sandbox import seeding
from crucible.sandbox.backend import Backend, Disk, KeepsElsewhere, Lifetime, Machine
from crucible.sandbox.doors.doors import Doors
from crucible.sandbox.doors.values import Values
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import CONSOLE_NAME, claim_user, holder, is_held
from crucible.sandbox.holding import Held as Held
from crucible.sandbox.machines import Machines, plan_for
from crucible.sandbox.new_records import NewRecords, new_id
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.placing import Placement, place_elsewhere, place_instead
from crucible.sandbox.records import LOCAL, Records, SandboxRecord
from crucible.sandbox.remains import Remains
from crucible.sandbox.spec import SandboxSpec, check_name

if TYPE_CHECKING:
    from crucible.network.secrets import Secret
    from crucible.sandbox.metering import Accounts
    from crucible.sandbox.pool.figures import StageFigures
    from crucible.sandbox.pool.pool import Pool
    from crucible.sandbox.pool.turnstile import Turnstile

# Brings an image here that is not: in a thread, until the last argument says that nobody waits any more. The second
# tells that nobody named this image.
Fetch = Callable[[str, bool, Callable[[], bool]], Image]

# Why a sandbox may be tried elsewhere: this host failed, and not what was asked of it.
OUR_FAULT = (BootFailed, GuestSilent, SetupError, TemplateDamaged)

# For what the command of a `run` leaves running, where it has a volume to which that may still write.
_RUN_GRACE_S = 5.0

# For what is still to be removed on another host; what is not by then, whoever comes next sees to.
_SETTLING_S = 15.0
_NOTICE_S = 10.0


class Manager:
    """`held` are the named sandboxes in this process's hands, by the ids of their records."""

    def __init__(
        self,
        *,
        config: Config,
        records: Records,
        machines: Machines,
        report: Report = silent,
        fetch: Fetch | None = None,
        accounts: Callable[[], Accounts] | None = None,
    ) -> None:
        self.config = config
        self.accounts = accounts
        self.records = records
        self.backends = machines.backends
        self.report = report
        self.held: dict[str, Held] = {}
        self.secrets = Values()
        self.machines = machines
        self.remains = Remains(records, self.machines, self.secrets)
        self.new_records = NewRecords(config.home, records, self.machines, self.remains)
        self.pool: Pool | None = None
        self.turnstile: Turnstile | None = None
        self.figures: StageFigures | None = None
        self._fetch = fetch
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def open(
        self,
        spec: SandboxSpec,
        *,
        name: str | None = None,
        secrets: Sequence[Secret] = (),
        disk: Disk = "fresh",
        owner: str = LOCAL,
    ) -> AsyncIterator[Held]:
        """A temporary sandbox: gone with everything it made when the block ends, or this process does."""
        placed = await place_elsewhere(self.machines, spec)
        async with AsyncExitStack() as stack:
            try:
                opening = self._open(
                    spec, placed, name=name, secrets=secrets, disk=disk, owner=owner
                )
                held = await stack.enter_async_context(opening)
            except OUR_FAULT as error:
                if placed is not None:
                    raise
                placed = await place_instead(self.machines, spec, error)
                opening = self._open(
                    spec, placed, name=name, secrets=secrets, disk=disk, owner=owner
                )
                held = await stack.enter_async_context(opening)
            yield held

    @asynccontextmanager
    async def _open(
        self,
        spec: SandboxSpec,
        placed: Placement | None,
        *,
        name: str | None,
        secrets: Sequence[Secret],
        disk: Disk,
        owner: str,
    ) -> AsyncIterator[Held]:
        record_id = new_id()
        own_name = check_name(name) if name else f"run-{record_id}"
        image = await self.images(spec, placed)
        pool = self.pool if placed is None else None
        async with AsyncExitStack() as stack:
            if self.turnstile is not None:
                waited = await stack.enter_async_context(self.turnstile.turn())
                self.note_stages([("queue", waited)])
            if pool is not None:
                stack.enter_context(pool.used())
            warm = None
            if pool is not None and disk == "fresh":
                warm = await pool.take(spec, image, own_name, owner)
            if warm is None:
                record = await self.new_records.add(
                    record_id, own_name, spec, image, is_temporary=True, placed=placed, owner=owner
                )
            else:
                record = warm.record
            self._tell_place(record)
            self.secrets.learn(record.id, secrets)
            try:
                if warm is None:
                    self._claim_volumes(record, is_first=True)
                    held = await self._boot(record, lifetime="command", disk=disk)
                else:
                    held = await self.take_up(record, image, warm.backend, warm.given())
                try:
                    if warm is not None:
                        self._claim_volumes(record, is_first=True)
                    yield held
                    await self._keep_volumes(held, grace_s=_RUN_GRACE_S)
                finally:
                    await finish(self._end(held))
            finally:
                self._erase_or_leave(record)

    def _erase_or_leave(self, record: SandboxRecord) -> None:
        """What may still run elsewhere keeps its record, in nobody's hands: whoever comes next ends it."""
        is_remote = self.machines.backend(record.backend).is_remote
        if is_remote and self.machines.remote().may_run(record.directory):
            self.records.update(record.id, holder_pid=None, holder_started="")
        else:
            self.remains.erase(record)

    def note_stages(self, stages: Sequence[tuple[str, float]]) -> None:
        """For whoever asks how fast things go; nobody does in a process that ends with its command."""
        if self.figures is not None:
            self.figures.note(stages)

    def note(self, verb: str, record: SandboxRecord, **more: str) -> None:
        """One line of audit about what became of a named sandbox."""
        told = {"id": record.id, "image": record.spec.image, "backend": record.backend,
                "isolation": record.isolation}  # fmt: skip
        self.records.write_audit(verb, record.name, {**told, **more}, owner=record.owner)

    async def create(
        self,
        name: str,
        spec: SandboxSpec,
        *,
        host_directory: str | None = None,
        secrets: Sequence[Secret] = (),
        owner: str = LOCAL,
    ) -> SandboxRecord:
        check_name(name)
        placed = await place_elsewhere(
            self.machines, spec, takes_directory=host_directory is not None
        )
        image = await self.images(spec, placed)
        record = await self.new_records.add(
            new_id(), name, spec, image, host_directory=host_directory, placed=placed, owner=owner
        )
        self._tell_place(record)
        self.secrets.learn(record.id, secrets)
        record = self.records.update(record.id, state="created")
        self.note("create", record)
        return record

    async def start(self, name: str, *, secrets: Sequence[Secret] = ()) -> SandboxRecord:
        """Values that are given are learned, also by a sandbox that runs already."""
        await self._notice_end(name)
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

    async def stop(self, name: str, *, grace_s: float = 5.0, note: str = "") -> SandboxRecord:
        """`note` is why, for whoever asks later."""
        async with self.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None:
                return await self._settle_or_miss(record)
            self.records.update(record.id, state="stopping")
            is_paused = record.state == "paused"
            return await self.finish_stop(held, grace_s=grace_s, is_paused=is_paused, note=note)

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
                await self.remains.bury(record)
            self.remains.erase(record)
            self.note("remove", record)

    async def rename(self, name: str, new: str) -> SandboxRecord:
        """Whatever its state is; what runs in it goes on. Raises NameTaken."""
        async with self.lock(name):
            record = self.find(name)
            changed = self.records.rename(record.id, check_name(new))
            if (held := self.held.get(record.id)) is not None:
                held.record = changed
            return changed

    async def pause(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            held = self.running(name)
            await held.machine.pause()
            held.awake.clear()
            held.record = self.records.update(held.record.id, state="paused")
            self.note("pause", held.record)
            return held.record

    async def resume(self, name: str) -> SandboxRecord:
        async with self.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None or record.state != "paused":
                raise WrongState(name, record.state, "paused")
            await held.machine.resume()
            held.record = self.records.update(record.id, state="running")
            self.note("resume", held.record)
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
            changed = change(record.spec)
            if self.machines.backend(record.backend).is_remote:
                return _unchanged_elsewhere(record, changed)
            record = self.records.change_spec(record.id, changed)
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
            fetch = self._fetch
            if fetch is None:
                raise
        from crucible.sandbox.abandonable import beside

        is_stopped = False
        try:
            return await beside(lambda: fetch(name, is_guess, lambda: is_stopped))
        finally:
            is_stopped = True

    async def images(self, spec: SandboxSpec, placed: Placement | None = None) -> Image:
        """All images of a sandbox as one, fetched where they are not here; of one elsewhere there is none to fetch."""
        if placed is not None:
            return self.image_of(spec, placed.backend)
        first = await self.image(spec.image)
        if not spec.images:
            return first
        for name in spec.images.values():
            await self.image(name)
        return self.image_of(spec)

    def image_of(self, spec: SandboxSpec, backend: Backend | None = None) -> Image:
        """The same, where all of them are here, or elsewhere."""
        if backend is not None and backend.is_remote:
            return self.machines.remote().image(spec.image)
        return load_images(self.config.home, spec.image, spec.images)

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

    async def furnish(self, held: Held, *, is_first: bool) -> None:
        """What a machine gets once its workspace is in it, before its first command."""
        record = held.record
        if record.spec.mounts:
            from crucible.sandbox.mounting import copy_mounts

            await copy_mounts(
                held.machine, record.spec, held.image, record.directory,
                own_state=self.config.home, is_first=is_first, report=self.report,
            )  # fmt: skip
        await held.furnish()

    async def take_up(
        self,
        record: SandboxRecord,
        image: Image,
        backend: Backend,
        booting: Coroutine[Any, Any, Machine],
    ) -> Held:
        """The sandbox of a machine that is being booted. Leaves nothing running if that fails or is cancelled."""
        try:
            machine = await booting
            return self._booted(record, machine, backend, image)
        except BaseException:
            await finish(self._bury(record, backend))
            raise

    async def _bury(self, record: SandboxRecord, backend: Backend) -> None:
        if backend.is_remote:
            await asyncio.to_thread(backend.bury, record.directory, record.id, None)
        else:
            backend.bury(record.directory, record.id, None)

    async def abandon(self, record: SandboxRecord) -> None:
        """Ends the machine of a start that did not succeed, if it came that far."""
        held = self.held.get(record.id)
        if held is not None:
            self._let_go(held)
            await self._end(held)

    def mark_running(self, held: Held) -> SandboxRecord:
        # Nobody could use it before now.
        held.touch()
        held.record = self.records.update(held.record.id, state="running", has_disk=True)
        self.note("start", held.record)
        return held.record

    def hold(self, held: Held) -> None:
        self.held[held.record.id] = held
        held.watcher = asyncio.create_task(self._watch(held))

    async def finish_stop(
        self, held: Held, *, grace_s: float, is_paused: bool = False, note: str = ""
    ) -> SandboxRecord:
        """Shuts a machine down whose record says that it is stopping."""
        self._let_go(held)
        try:
            if is_paused:
                with contextlib.suppress(SandboxError):
                    await held.machine.resume()
            await self._keep_volumes(held, grace_s=grace_s)
            await held.machine.shutdown(grace_s)
        except Exception:
            await finish(self._end(held))
            self.remains.mark_stopped(held.record, note="it could not be shut down and was ended")
            raise
        finally:
            held.log.close()
        record = self.remains.mark_stopped(held.record, note=note)
        self.note("stop", record)
        return record

    async def let_all_go(self) -> None:
        """Leaves every machine running, for another process to take over."""
        for held in list(self.held.values()):
            self._let_go(held)
            held.log.close()
            await held.machine.detach()
        for backend in self.backends:
            if isinstance(backend, KeepsElsewhere):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SETTLING_S):
                        await backend.settled()

    async def _start(self, record: SandboxRecord) -> SandboxRecord:
        if record.id in self.held:
            if record.state == "paused":
                raise WrongState(record.name, "paused", "stopped",
                                 hint=f"Use `crucible resume {record.name}`")  # fmt: skip
            return record
        record = await self._settle_or_miss(record)
        is_first = not record.has_disk
        is_remote = self.machines.backend(record.backend).is_remote
        user = None if is_remote else claim_user(self.records)
        record = self.records.update(
            record.id, state="starting", note="", host_uid=user, **holder()
        )
        try:
            self._claim_volumes(record, is_first=is_first)
            if is_first and not is_remote:
                held = await self._boot_first(record)
            else:
                disk: Disk = "fresh" if is_first else "kept"
                held = await self._boot(record, lifetime="sandbox", disk=disk)
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

    async def _notice_end(self, name: str) -> None:
        """A machine that ended a moment ago may still be taken for one that runs."""
        held = self.held.get(self.find(name).id)
        is_over = held is not None and not held.backend.is_alive(held.machine.handle)
        if held is not None and held.watcher is not None and is_over:
            await asyncio.wait({held.watcher}, timeout=_NOTICE_S)

    async def _boot_first(self, record: SandboxRecord) -> Held:
        """Here, else where it may go instead: there is nothing of it yet that would have to move."""
        try:
            return await self._boot(record, lifetime="sandbox", disk="fresh")
        except OUR_FAULT as error:
            placed = await place_instead(
                self.machines, record.spec, error,
                takes_directory=record.host_directory is not None,
            )  # fmt: skip
        record = self.records.update(
            record.id, backend=placed.backend.name, isolation=placed.isolation, placed=placed.why,
            image_digest=self.image_of(record.spec, placed.backend).digest,
        )  # fmt: skip
        self._tell_place(record)
        return await self._boot(record, lifetime="sandbox", disk="fresh")

    def _tell_place(self, record: SandboxRecord) -> None:
        """Who chose a provider is told what came of it. So is everybody whose sandbox is not on this host."""
        is_remote = self.machines.backend(record.backend).is_remote
        if is_remote or record.spec.provider or self.config.provider != "auto":
            self.report(NOTICE, f"provider: {record.placed} ({record.backend}, {record.isolation})")
        if is_remote:
            told = {"backend": record.backend, "why": record.placed}
            self.records.write_audit("place", record.name, told, owner=record.owner)

    async def _abandon_start(self, record: SandboxRecord) -> None:
        await self.abandon(record)
        self.remains.mark_stopped(record)

    async def _settle_or_miss(self, record: SandboxRecord) -> SandboxRecord:
        settled = await self.remains.settle(record)
        if settled is None:
            raise SandboxMissing(record.name)
        return settled

    async def _boot(self, record: SandboxRecord, *, lifetime: Lifetime, disk: Disk) -> Held:
        backend = self.machines.backend(record.backend)
        image = self.image_of(record.spec, backend)
        if image.parts and disk != "kept":
            from crucible.images.composing import make_composed

            await asyncio.to_thread(make_composed, self.config.home, image, self.report)
        plan = plan_for(record, image, lifetime=lifetime, disk=disk)
        record.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return await self.take_up(record, image, backend, self.machines.boot(backend, plan))

    def _booted(
        self, record: SandboxRecord, machine: Machine, backend: Backend, image: Image
    ) -> Held:
        handle = machine.handle
        record = self.records.update(
            record.id, pid=handle.pid, pid_started=handle.started, pid_detail=handle.detail,
            started_at=time.time(), state="running" if record.is_temporary else record.state,
        )  # fmt: skip
        held = Held(
            record=record, machine=machine, backend=backend, image=image,
            log=OutputLog(record.directory),
            doors=Doors(
                "" if record.is_temporary else record.name, machine, record.directory,
                is_remote=backend.is_remote,
            ),
        )  # fmt: skip
        held.doors.secrets = self.secrets.of(record)
        held.doors.accounts = self.accounts
        if not record.is_temporary:
            held.log.mark_machine()
            self.hold(held)
        return held

    def _claim_volumes(self, record: SandboxRecord, *, is_first: bool) -> None:
        if record.spec.mounts:
            from crucible.sandbox import volume_use

            volume_use.claim(record, self.records.sandboxes, self.config.home, is_first=is_first)

    async def _keep_volumes(self, held: Held, *, grace_s: float) -> None:
        if held.record.spec.mounts:
            from crucible.sandbox import volume_use

            await volume_use.keep(held, self.config.home, self.report, grace_s=grace_s)

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
            await asyncio.to_thread(
                held.backend.bury, held.record.directory, held.record.id, held.machine.handle
            )
            raise

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
                self.remains.mark_stopped(held.record, note=why)
                self.note("end", held.record, why=why)


def _unchanged_elsewhere(record: SandboxRecord, changed: SandboxSpec) -> SandboxRecord:
    if changed != record.spec:
        raise Unsupported(
            f"The network of sandbox {record.name!r} is its provider's, and is settled when it is made",
            hint="Make another with the network that you want",
        )
    return record
