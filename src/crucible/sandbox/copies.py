"""Copies of a sandbox that start from a snapshot: recorded first, then booted, undone if one of them cannot be."""

from __future__ import annotations

from pathlib import Path

from crucible.sandbox.backend import Backend, KeepsMachines
from crucible.sandbox.doors.ports import parse_port
from crucible.sandbox.holding import Held
from crucible.sandbox.machines import plan_for
from crucible.sandbox.manager import Manager
from crucible.sandbox.new_records import new_id
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import SandboxSpec, check_name
from crucible.values import replace


class Copies:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def record(
        self,
        name: str,
        spec: SandboxSpec,
        backend: Backend,
        host_directory: str | None = None,
        *,
        owner: str,
    ) -> SandboxRecord:
        """The record of a copy that is about to start from a snapshot. It is whose the original is."""
        # A volume has one writer: the copy keeps the files, and the volume stays with its original.
        mounts = tuple(text for text in spec.mounts if not text.endswith((":volume", ":volume-ro")))
        own = replace(spec, ports=tuple(_any_free(text) for text in spec.ports), mounts=mounts)
        image = await self._manager.images.gather(spec)
        return await self._manager.new_records.add(
            new_id(),
            check_name(name),
            own,
            image,
            host_directory=host_directory,
            copy_of=backend,
            owner=owner,
        )

    async def boot(self, record: SandboxRecord, backend: KeepsMachines, snapshot: Path) -> Held:
        """Boots a sandbox whose record is new from a snapshot. It is not there for others yet."""
        manager = self._manager
        async with manager.hands.lock(record.name):
            record = manager.records.find(record.name)
            image = manager.images.of(record.spec)
            plan = plan_for(record, image, lifetime="sandbox", disk="fresh")
            booting = manager.machines.restore(backend, plan, snapshot)
            held = await manager.hands.take_up(record, image, backend, booting)
            held.has_strangers = True
            await held.furnish()
            return held

    async def discard(self, record: SandboxRecord) -> None:
        """Undoes a sandbox that was never reported to anybody."""
        async with self._manager.hands.lock(record.name):
            await self._manager.hands.abandon(record)
            self._manager.remains.erase(record)


def _any_free(port: str) -> str:
    """A copy cannot have the host's port that its original has."""
    return str(parse_port(port)._replace(host=0))
