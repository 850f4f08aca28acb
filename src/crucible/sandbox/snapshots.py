"""Snapshots of running sandboxes: taken, restored, forked, exported to one file and taken in again."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from crucible.errors import CrucibleError, SnapshotMissing, StateDamaged
from crucible.sandbox.choice import choose_backend
from crucible.sandbox.manager import Held, Manager, new_id
from crucible.sandbox.records import (
    SandboxRecord,
    SnapshotRecord,
    snapshot_directory,
    snapshot_facts,
    snapshot_from_facts,
)
from crucible.sandbox.spec import check_name


class Snapshots:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def take(self, name: str, tag: str) -> SnapshotRecord:
        """Memory, processes and disk of one moment; the sandbox goes on."""
        async with self._manager.lock(name):
            held = self._manager.running(name)
            record = _describe(held, check_name(tag), self._manager.config.home)
            self._manager.records.add_snapshot(record)
            try:
                await self._save(held, record.directory)
            except BaseException:
                self._forget(record)
                raise
            self._manager.records.mark_snapshot(tag, "saved")
        return replace(record, state="saved")

    async def restore(self, tag: str, name: str) -> SandboxRecord:
        source = self._manager.records.find_snapshot(tag)
        if source.state != "saved":
            raise SnapshotMissing(tag)
        spec = replace(source.spec, backend=source.backend)
        backend, _ = await choose_backend(self._manager.backends, spec)
        record = await self._manager.record_new_copy(name, source.spec, backend)
        return await self._manager.hold_copy(record, backend, source.directory)

    async def fork(self, name: str, names: Sequence[str]) -> list[SandboxRecord]:
        """Copies of a running sandbox, each with its memory and processes and an identity of its own."""
        for new in names:
            check_name(new)
        scratch = self._manager.config.home / "scratch" / f"fork-{new_id()}"
        async with self._manager.lock(name):
            held = self._manager.running(name)
            try:
                await self._save(held, scratch)
                records = [
                    await self._manager.record_new_copy(
                        new, held.record.spec, held.backend, held.record.host_directory
                    )
                    for new in names
                ]
                async with asyncio.TaskGroup() as group:
                    copies = [
                        group.create_task(self._manager.hold_copy(record, held.backend, scratch))
                        for record in records
                    ]
            except BaseExceptionGroup as several:
                raise _first_of(several) from None
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return [copy.result() for copy in copies]

    async def remove(self, tag: str) -> None:
        record = self._manager.records.find_snapshot(tag)
        self._manager.records.mark_snapshot(tag, "removing")
        await asyncio.to_thread(shutil.rmtree, record.directory, ignore_errors=True)
        self._manager.records.delete_snapshot(tag)

    async def export(self, tag: str, path: Path) -> None:
        record = self._manager.records.find_snapshot(tag)
        backend = self._manager.backend_named(record.backend)
        await asyncio.to_thread(
            backend.pack_snapshot, record.directory, path, snapshot_facts(record)
        )

    async def take_in(self, path: Path, tag: str) -> SnapshotRecord:
        """Reads a snapshot that was exported here or elsewhere; every byte is checked."""
        check_name(tag)
        record_id = new_id()
        directory = snapshot_directory(self._manager.config.home, record_id)
        directory.mkdir(parents=True, mode=0o700)
        try:
            facts = await asyncio.to_thread(
                self._manager.backends[0].unpack_snapshot, path, directory
            )
            record = snapshot_from_facts(facts, tag=tag, record_id=record_id, directory=directory)
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

    async def _save(self, held: Held, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise StateDamaged(f"{directory} cannot be made: {error}") from error
        await held.backend.snapshot(held.machine, self._manager.plan_of(held), directory)

    def _forget(self, record: SnapshotRecord) -> None:
        shutil.rmtree(record.directory, ignore_errors=True)
        self._manager.records.delete_snapshot(record.tag)


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
    )


def _first_of(several: BaseExceptionGroup[BaseException]) -> BaseException:
    for error in several.exceptions:
        if isinstance(error, CrucibleError):
            return error
    return several.exceptions[0]
