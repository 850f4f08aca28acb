"""Snapshots of running sandboxes: taken, restored, forked, exported to one file and taken in again."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from crucible.errors import CrucibleError, SnapshotMissing, SnapshotTaken, StateDamaged
from crucible.sandbox.backend import KeepsMachines
from crucible.sandbox.copies import Copies
from crucible.sandbox.doors.secrets import copy_secrets
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.machines import copying, plan_for
from crucible.sandbox.manager import Manager
from crucible.sandbox.new_records import new_id
from crucible.sandbox.placing import place_here
from crucible.sandbox.records import (
    LOCAL,
    SandboxRecord,
    SnapshotRecord,
    snapshot_directory,
    snapshot_facts,
    snapshot_from_facts,
)
from crucible.sandbox.scratch import scratch_directory
from crucible.sandbox.seeding import copy_baselines
from crucible.sandbox.spec import check_name


class Snapshots:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._copies = Copies(manager)

    async def take(self, name: str, tag: str) -> SnapshotRecord:
        """Memory, processes and disk of one moment; the sandbox goes on."""
        async with self._manager.hands.lock(name):
            held = self._manager.running(name)
            copying(held.backend)
            record = _describe(held, check_name(tag, "snapshot"), self._manager.config.home)
            self._manager.records.add_snapshot(record)
            try:
                await self._save(held, record.directory)
            except BaseException:
                self._forget(record)
                raise
            self._manager.records.mark_snapshot(tag, "saved")
        return replace(record, state="saved")

    async def restore(self, tag: str, name: str, *, like: SandboxRecord | None = None) -> Held:
        """`like` is a sandbox whose workspace this one has: it is compared with the same directory of the host."""
        source = self._saved(tag)
        spec = replace(source.spec, backend=source.backend, provider="")
        backend = copying((await place_here(self._manager.machines, spec)).backend)
        # It keeps what it has. A snapshot may come from elsewhere: it names nothing of this host to copy.
        own = replace(source.spec, mounts=())
        host_directory = like.host_directory if like else None
        record = await self._copies.record(name, own, backend, host_directory, owner=source.owner)
        copy_secrets(source.directory, record.directory)
        if like is not None:
            copy_baselines(like.directory, record.directory)
        return (await self._boot_all([record], backend, source.directory))[0]

    async def fork(self, name: str, names: Sequence[str]) -> list[Held]:
        """Copies of a running sandbox, each with its memory and processes and an identity of its own.

        All of them or none: if one cannot be made, those that were made are undone.
        """
        for new in names:
            check_name(new)
        manager = self._manager
        async with manager.hands.lock(name):
            held = manager.running(name)
            backend = copying(held.backend)
            with scratch_directory(manager.config.home, "fork") as scratch:
                moment = scratch / "saved"
                await self._save(held, moment)
                records = await self._record_forks(held, names)
                try:
                    return await self._boot_all(records, backend, moment)
                finally:
                    backend.forget_saved(moment)

    async def remove(self, tag: str) -> None:
        record = self._saved(tag)
        self._manager.records.mark_snapshot(tag, "removing")
        copying(self._manager.machines.backend(record.backend)).forget_saved(record.directory)
        await asyncio.to_thread(shutil.rmtree, record.directory, ignore_errors=True)
        self._manager.records.delete_snapshot(tag)

    async def export(self, tag: str, path: Path) -> None:
        record = self._saved(tag)
        backend = copying(self._manager.machines.backend(record.backend))
        await asyncio.to_thread(
            backend.pack_snapshot, record.directory, path, snapshot_facts(record)
        )

    async def take_in(self, path: Path, tag: str, *, owner: str = LOCAL) -> SnapshotRecord:
        """Reads a snapshot that was exported here or elsewhere; every byte is checked."""
        if check_name(tag, "snapshot") in {
            record.tag for record in self._manager.records.snapshots()
        }:
            raise SnapshotTaken(tag)
        record_id = new_id()
        directory = snapshot_directory(self._manager.config.home, record_id)
        _make(directory)
        try:
            facts = await asyncio.to_thread(
                copying(self._manager.backends[0]).unpack_snapshot, path, directory
            )
            record = snapshot_from_facts(
                facts, tag=tag, record_id=record_id, directory=directory, owner=owner
            )
            self._manager.records.add_snapshot(record)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return record

    def settle(self) -> None:
        """Removes what a holder that died had begun."""
        for record in self._manager.records.snapshots():
            if record.state != "saved":
                self._forget(record)
        known = {record.id for record in self._manager.records.snapshots()}
        for path in (self._manager.config.home / "snapshots").glob("*"):
            if path.name not in known:
                shutil.rmtree(path, ignore_errors=True)

    def _saved(self, tag: str) -> SnapshotRecord:
        """A snapshot that is whole: not one that is still being taken, or removed."""
        record = self._manager.records.find_snapshot(tag)
        if record.state != "saved":
            raise SnapshotMissing(tag)
        return record

    async def _record_forks(self, held: Held, names: Sequence[str]) -> list[SandboxRecord]:
        original = held.record
        records: list[SandboxRecord] = []
        try:
            for name in names:
                record = await self._copies.record(
                    name,
                    original.spec,
                    held.backend,
                    original.host_directory,
                    owner=original.owner,
                )
                records.append(record)
                copy_baselines(original.directory, record.directory)
                copy_secrets(original.directory, record.directory)
                self._manager.secrets.share(original.id, record.id)
        except BaseException:
            await finish(self._discard_all(records))
            raise
        return records

    async def _boot_all(
        self, records: list[SandboxRecord], backend: KeepsMachines, snapshot: Path
    ) -> list[Held]:
        """None of them is there for others before all of them are."""
        manager = self._manager
        try:
            async with asyncio.TaskGroup() as group:
                booting = [
                    group.create_task(self._copies.boot(record, backend, snapshot))
                    for record in records
                ]
        except BaseException as error:
            await finish(self._discard_all(records))
            if isinstance(error, BaseExceptionGroup):
                raise _first_of(error) from None
            raise
        copies = [task.result() for task in booting]
        for copy in copies:
            manager.notes.audit("create", copy.record)
            manager.hands.mark_running(copy)
        return copies

    async def _discard_all(self, records: list[SandboxRecord]) -> None:
        for record in records:
            await self._copies.discard(record)

    async def _save(self, held: Held, directory: Path) -> None:
        _make(directory)
        plan = plan_for(held.record, held.image, lifetime="sandbox", disk="kept")
        await copying(held.backend).snapshot(held.machine, plan, directory)
        copy_secrets(held.record.directory, directory)

    def _forget(self, record: SnapshotRecord) -> None:
        shutil.rmtree(record.directory, ignore_errors=True)
        self._manager.records.delete_snapshot(record.tag)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StateDamaged(f"{directory} cannot be made: {error}") from error


def _describe(held: Held, tag: str, home: Path) -> SnapshotRecord:
    record_id = new_id()
    return SnapshotRecord(
        tag=tag,
        id=record_id,
        state="saving",
        sandbox_name=held.record.name,
        spec=held.record.spec,
        backend=held.record.backend,
        isolation=held.record.isolation,
        image_digest=held.record.image_digest,
        created_at=time.time(),
        directory=snapshot_directory(home, record_id),
        owner=held.record.owner,
    )


def _first_of(several: BaseExceptionGroup[BaseException]) -> BaseException:
    for error in several.exceptions:
        if isinstance(error, CrucibleError):
            return error
    return several.exceptions[0]
