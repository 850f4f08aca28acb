"""What is left of a sandbox whose machine is gone: made agree with its record, or removed with it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

from crucible.errors import SandboxMissing
from crucible.sandbox.backend import KeepsElsewhere
from crucible.sandbox.doors.values import Values
from crucible.sandbox.holding import handle_of, release_user
from crucible.sandbox.machines import Machines
from crucible.sandbox.records import Records, SandboxRecord


class Remains:
    def __init__(self, records: Records, machines: Machines, secrets: Values) -> None:
        self._records = records
        self._machines = machines
        self._secrets = secrets

    async def settle(self, record: SandboxRecord) -> SandboxRecord | None:
        """Brings a record whose machine is in nobody's hands to what is so; None if nothing is left of it.

        What was never reported done is undone; what was begun to be removed is removed.
        """
        if record.state in ("created", "stopped") and not record.is_temporary:
            return record
        await self.bury(record)
        if record.is_temporary or record.state in ("creating", "removing"):
            self.erase(record)
            return None
        if record.state == "starting":
            return self.mark_stopped(record, note="its start was cut short")
        if record.state == "stopping":
            return self.mark_stopped(record)
        return self.mark_stopped(record, note="its machine ended while nobody held it")

    async def settle_or_miss(self, record: SandboxRecord) -> SandboxRecord:
        """The same, for one that must be there. Raises SandboxMissing."""
        settled = await self.settle(record)
        if settled is None:
            raise SandboxMissing(record.name)
        return settled

    def mark_stopped(self, record: SandboxRecord, *, note: str = "") -> SandboxRecord:
        """Whether it has a disk to start from again decides what it is now."""
        current = self._records.find(record.name)
        if not current.has_disk:
            _empty(record.directory)
        stopped = self._records.update(
            record.id, state="stopped" if current.has_disk else "created", pid=None, pid_started="",
            pid_detail="", started_at=None, host_uid=None, note=note,
        )  # fmt: skip
        release_user(current)
        return stopped

    async def bury(self, record: SandboxRecord) -> None:
        """Ends what may still run of it."""
        backend = self._machines.backend(record.backend)
        await asyncio.to_thread(backend.bury, record.directory, record.id, handle_of(record))

    def erase(self, record: SandboxRecord) -> None:
        for backend in self._machines.backends:
            is_its = backend.name == record.backend and not record.is_temporary
            if is_its and isinstance(backend, KeepsElsewhere):
                backend.forget(record.id)
        shutil.rmtree(record.directory, ignore_errors=True)
        self._secrets.forget(record.id)
        self._records.delete(record.id)
        release_user(record)


def _empty(directory: Path) -> None:
    """A first start that did not succeed leaves nothing that a second one could trip over."""
    with contextlib.suppress(FileNotFoundError):
        for path in directory.iterdir():
            path.unlink()
