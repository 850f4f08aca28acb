"""The machines that this process holds: booted, furnished, watched, let go of, ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from crucible.config import Config
from crucible.errors import CrucibleError, SandboxError
from crucible.images.catalog import Image
from crucible.images.report import Report
from crucible.sandbox.backend import Backend, Disk, KeepsElsewhere, Lifetime, Machine
from crucible.sandbox.doors.doors import Doors
from crucible.sandbox.doors.values import Values
from crucible.sandbox.finishing import finish
from crucible.sandbox.gathering import Images
from crucible.sandbox.holding import CONSOLE_NAME, Held
from crucible.sandbox.machines import Machines, plan_for
from crucible.sandbox.noting import Notes
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import Records, SandboxRecord
from crucible.sandbox.remains import Remains

if TYPE_CHECKING:
    from crucible.sandbox.metering import Accounts

# For what is still to be removed on another host; what is not by then, whoever comes next sees to.
_SETTLING_S = 15.0


class Hands:
    """`held` are the named sandboxes among them, by the ids of their records."""

    def __init__(
        self,
        *,
        config: Config,
        records: Records,
        machines: Machines,
        images: Images,
        remains: Remains,
        secrets: Values,
        notes: Notes,
        report: Report,
        accounts: Callable[[], Accounts] | None,
    ) -> None:
        self.held: dict[str, Held] = {}
        self._config = config
        self._records = records
        self._machines = machines
        self._images = images
        self._remains = remains
        self._secrets = secrets
        self._notes = notes
        self._report = report
        self._accounts = accounts
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> asyncio.Lock:
        """Whoever changes a sandbox's state holds this. It exists as long as somebody holds or wants it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def boot(self, record: SandboxRecord, *, lifetime: Lifetime, disk: Disk) -> Held:
        backend = self._machines.backend(record.backend)
        image = self._images.of(record.spec, backend)
        if image.parts and disk != "kept":
            from crucible.images.composing import make_composed

            await asyncio.to_thread(make_composed, self._config.home, image, self._report)
        plan = plan_for(record, image, lifetime=lifetime, disk=disk)
        record.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return await self.take_up(record, image, backend, self._machines.boot(backend, plan))

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

    async def furnish(self, held: Held, *, is_first: bool) -> None:
        """What a machine gets once its workspace is in it, before its first command."""
        record = held.record
        if record.spec.mounts:
            from crucible.sandbox.mounting import copy_mounts

            await copy_mounts(
                held.machine, record.spec, held.image, record.directory,
                own_state=self._config.home, is_first=is_first, report=self._report,
            )  # fmt: skip
        await held.furnish()

    async def open_doors(self, held: Held) -> None:
        """Those that are not open yet. A port that somebody else has taken is no reason to let go of a machine."""
        try:
            await held.doors.open(held.record.spec)
        except CrucibleError as error:
            held.record = self._records.update(held.record.id, note=error.message)

    def mark_running(self, held: Held) -> SandboxRecord:
        # Nobody could use it before now.
        held.touch()
        held.record = self._records.update(held.record.id, state="running", has_disk=True)
        self._notes.audit("start", held.record)
        return held.record

    def hold(self, held: Held) -> None:
        self.held[held.record.id] = held
        held.watcher = asyncio.create_task(self._watch(held))

    def claim_volumes(self, record: SandboxRecord, *, is_first: bool) -> None:
        if record.spec.mounts:
            from crucible.sandbox import volume_use

            volume_use.claim(record, self._records.sandboxes, self._config.home, is_first=is_first)

    async def keep_volumes(self, held: Held, *, grace_s: float) -> None:
        if held.record.spec.mounts:
            from crucible.sandbox import volume_use

            await volume_use.keep(held, self._config.home, self._report, grace_s=grace_s)

    async def abandon(self, record: SandboxRecord) -> None:
        """Ends the machine of a start that did not succeed, if it came that far."""
        held = self.held.get(record.id)
        if held is not None:
            self.let_go(held)
            await self.end(held)

    def let_go(self, held: Held) -> None:
        """Its commands may still write to its log; whoever calls this closes that."""
        held.doors.close()
        self.held.pop(held.record.id, None)
        held.awake.set()
        if held.watcher is not None:
            held.watcher.cancel()

    async def end(self, held: Held) -> None:
        held.doors.close()
        held.log.close()
        try:
            await held.machine.close()
        except Exception:
            await asyncio.to_thread(
                held.backend.bury, held.record.directory, held.record.id, held.machine.handle
            )
            raise

    async def let_all_go(self) -> None:
        """Leaves every machine running, for another process to take over."""
        for held in list(self.held.values()):
            self.let_go(held)
            held.log.close()
            await held.machine.detach()
        for backend in self._machines.backends:
            if isinstance(backend, KeepsElsewhere):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SETTLING_S):
                        await backend.settled()

    def _booted(
        self, record: SandboxRecord, machine: Machine, backend: Backend, image: Image
    ) -> Held:
        handle = machine.handle
        record = self._records.update(
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
        held.doors.secrets = self._secrets.of(record)
        held.doors.accounts = self._accounts
        if not record.is_temporary:
            held.log.mark_machine()
            self.hold(held)
        return held

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
                await self.end(held)
            finally:
                self._remains.mark_stopped(held.record, note=why)
                self._notes.audit("end", held.record, why=why)

    async def _bury(self, record: SandboxRecord, backend: Backend) -> None:
        if backend.is_remote:
            await asyncio.to_thread(backend.bury, record.directory, record.id, None)
        else:
            backend.bury(record.directory, record.id, None)
