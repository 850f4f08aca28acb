"""Opens, keeps and ends sandboxes. Every step is in the records before it is done on the host.

This is its face: `opening.py` has temporary sandboxes, `starting.py` how named ones start, `hands.py` their machines.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from crucible.config import Config
from crucible.errors import SandboxError, SecretMissing, Unsupported, WrongState
from crucible.images.report import Report, silent
from crucible.sandbox.backend import Disk
from crucible.sandbox.doors.values import Values
from crucible.sandbox.finishing import finish
from crucible.sandbox.gathering import Fetch, Images
from crucible.sandbox.hands import Hands
from crucible.sandbox.holding import Held, is_held
from crucible.sandbox.machines import Machines
from crucible.sandbox.new_records import NewRecords, new_id
from crucible.sandbox.noting import Notes
from crucible.sandbox.opening import Opening
from crucible.sandbox.placing import place_elsewhere
from crucible.sandbox.records import LOCAL, Records, SandboxRecord
from crucible.sandbox.remains import Remains
from crucible.sandbox.spec import SandboxSpec, check_name
from crucible.store.lazy import LazyDatabase, lazy_database

if TYPE_CHECKING:
    from crucible.network.secrets import Secret
    from crucible.sandbox.metering import Accounts
    from crucible.sandbox.starting import Starting

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
        database: LazyDatabase | None = None,
    ) -> None:
        self.config = config
        # Of this program; sandboxes themselves are in the records.
        self.database = database or lazy_database(config.home)
        self.accounts = accounts
        self.records = records
        self.backends = machines.backends
        self.report = report
        self.secrets = Values()
        self.machines = machines
        self.images = Images(config.home, machines, fetch)
        self.remains = Remains(records, machines, self.secrets)
        self.new_records = NewRecords(config.home, records, machines, self.remains)
        self.notes = Notes(config=config, records=records, machines=machines, report=report)
        self.hands = Hands(
            config=config, records=records, machines=machines, images=self.images,
            remains=self.remains, secrets=self.secrets, notes=self.notes, report=report,
            accounts=accounts,
        )  # fmt: skip
        self.held = self.hands.held
        self.opening = Opening(
            records=records, machines=machines, images=self.images, new_records=self.new_records,
            remains=self.remains, secrets=self.secrets, notes=self.notes, hands=self.hands,
        )  # fmt: skip

    def open(
        self,
        spec: SandboxSpec,
        *,
        name: str | None = None,
        secrets: Sequence[Secret] = (),
        disk: Disk = "fresh",
        owner: str = LOCAL,
    ) -> AbstractAsyncContextManager[Held]:
        """A temporary sandbox: gone with everything it made when the block ends, or this process does."""
        return self.opening.open(spec, name=name, secrets=secrets, disk=disk, owner=owner)

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
        image = await self.images.gather(spec, placed)
        record = await self.new_records.add(
            new_id(), name, spec, image, host_directory=host_directory, placed=placed, owner=owner
        )
        self.notes.tell_place(record)
        self.secrets.learn(record.id, secrets)
        record = self.records.update(record.id, state="created")
        self.notes.audit("create", record)
        return record

    async def start(self, name: str, *, secrets: Sequence[Secret] = ()) -> SandboxRecord:
        """Values that are given are learned, also by a sandbox that runs already."""
        await self._notice_end(name)
        async with self.hands.lock(name):
            record = self.find(name)
            self.secrets.learn(record.id, secrets)
            held = self.held.get(record.id)
            known = self.secrets.of(record) if held is not None and secrets else None
            if held is not None and known is not None:
                await held.doors.change_secrets(record.spec, known)
            missing = self.secrets.missing(record)
            if missing:
                raise SecretMissing(name, missing)
            return await self._starting().start(record)

    async def stop(self, name: str, *, grace_s: float = 5.0, note: str = "") -> SandboxRecord:
        """`note` is why, for whoever asks later."""
        async with self.hands.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None:
                return await self.remains.settle_or_miss(record)
            self.records.update(record.id, state="stopping")
            is_paused = record.state == "paused"
            return await self.finish_stop(held, grace_s=grace_s, is_paused=is_paused, note=note)

    async def remove(self, name: str, *, force: bool = False) -> None:
        async with self.hands.lock(name):
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
                self.hands.let_go(held)
                await finish(self.hands.end(held))
            else:
                await self.remains.bury(record)
            self.remains.erase(record)
            self.notes.audit("remove", record)

    async def rename(self, name: str, new: str) -> SandboxRecord:
        """Whatever its state is; what runs in it goes on. Raises NameTaken."""
        async with self.hands.lock(name):
            record = self.find(name)
            changed = self.records.rename(record.id, check_name(new))
            if (held := self.held.get(record.id)) is not None:
                held.record = changed
            return changed

    async def pause(self, name: str) -> SandboxRecord:
        async with self.hands.lock(name):
            held = self.running(name)
            await held.machine.pause()
            held.awake.clear()
            held.record = self.records.update(held.record.id, state="paused")
            self.notes.audit("pause", held.record)
            return held.record

    async def resume(self, name: str) -> SandboxRecord:
        async with self.hands.lock(name):
            record = self.find(name)
            held = self.held.get(record.id)
            if held is None or record.state != "paused":
                raise WrongState(name, record.state, "paused")
            await held.machine.resume()
            held.record = self.records.update(record.id, state="running")
            self.notes.audit("resume", held.record)
            await self.hands.open_doors(held)
            return held.record

    async def change_network(
        self, name: str, change: Callable[[SandboxSpec], SandboxSpec]
    ) -> SandboxRecord:
        """Gives a sandbox another policy, running or not. What is open and not allowed any more is cut."""
        async with self.hands.lock(name):
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

    async def finish_stop(
        self, held: Held, *, grace_s: float, is_paused: bool = False, note: str = ""
    ) -> SandboxRecord:
        """Shuts a machine down whose record says that it is stopping."""
        self.hands.let_go(held)
        try:
            if is_paused:
                with contextlib.suppress(SandboxError):
                    await held.machine.resume()
            await self.hands.keep_volumes(held, grace_s=grace_s)
            await held.machine.shutdown(grace_s)
        except Exception:
            await finish(self.hands.end(held))
            self.remains.mark_stopped(held.record, note="it could not be shut down and was ended")
            raise
        finally:
            held.log.close()
        record = self.remains.mark_stopped(held.record, note=note)
        self.notes.audit("stop", record)
        return record

    def _starting(self) -> Starting:
        # A `run` starts no named sandbox, and need not load how.
        from crucible.sandbox.starting import Starting

        return Starting(
            config=self.config, records=self.records, machines=self.machines, images=self.images,
            remains=self.remains, notes=self.notes, hands=self.hands, report=self.report,
        )  # fmt: skip

    async def _notice_end(self, name: str) -> None:
        """A machine that ended a moment ago may still be taken for one that runs."""
        held = self.held.get(self.find(name).id)
        is_over = held is not None and not held.backend.is_alive(held.machine.handle)
        if held is not None and held.watcher is not None and is_over:
            await asyncio.wait({held.watcher}, timeout=_NOTICE_S)


def _unchanged_elsewhere(record: SandboxRecord, changed: SandboxSpec) -> SandboxRecord:
    if changed != record.spec:
        raise Unsupported(
            f"The network of sandbox {record.name!r} is its provider's, and is settled when it is made",
            hint="Make another with the network that you want",
        )
    return record
