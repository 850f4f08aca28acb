"""The record of a new sandbox: written before anything of it is on the host, so that whoever finds it can clean up."""

from __future__ import annotations

import os
import time
from pathlib import Path

from crucible.errors import StateDamaged
from crucible.images.catalog import Image
from crucible.sandbox.backend import Backend
from crucible.sandbox.holding import claim_user, release_user
from crucible.sandbox.machines import Machines, is_elsewhere
from crucible.sandbox.placing import Placement, place_here
from crucible.sandbox.processes import start_mark
from crucible.sandbox.records import LOCAL, Records, SandboxRecord, sandbox_directory
from crucible.sandbox.remains import Remains
from crucible.sandbox.spec import SandboxSpec


def new_id() -> str:
    return os.urandom(6).hex()


class NewRecords:
    def __init__(self, home: Path, records: Records, machines: Machines, remains: Remains) -> None:
        self._home = home
        self._records = records
        self._machines = machines
        self._remains = remains

    async def add(
        self,
        record_id: str,
        name: str,
        spec: SandboxSpec,
        image: Image,
        *,
        is_temporary: bool = False,
        is_warm: bool = False,
        host_directory: str | None = None,
        placed: Placement | None = None,
        copy_of: Backend | None = None,
        owner: str = LOCAL,
    ) -> SandboxRecord:
        """The best machine of this host, unless it is `placed` elsewhere or a copy, which has its original's backend.

        One that `is_warm` is nobody's sandbox yet.
        """
        if copy_of is not None:
            isolation = str(await copy_of.isolation())
            placed = Placement(backend=copy_of, isolation=isolation, why="where its original runs")
        elif placed is None:
            placed = await place_here(self._machines, spec)
        backend = placed.backend
        takes_user = not is_elsewhere(backend) and (is_temporary or copy_of is not None)
        if not is_elsewhere(backend):
            self._machines.admit(spec.memory_mib)
        record = SandboxRecord(
            id=record_id,
            name=name,
            state="warm" if is_warm else "starting" if is_temporary else "creating",
            spec=spec,
            directory=sandbox_directory(self._home, record_id),
            created_at=time.time(),
            backend=backend.name,
            isolation=placed.isolation,
            image_digest=image.digest,
            is_temporary=is_temporary,
            host_directory=host_directory,
            host_uid=claim_user(self._records) if takes_user else None,
            holder_pid=os.getpid(),
            holder_started=start_mark(os.getpid()) or "",
            placed=placed.why,
            owner=owner,
        )
        try:
            self._records.add(record)
        except BaseException:
            release_user(record)
            raise
        try:
            record.directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            self._remains.erase(record)
            raise StateDamaged(f"{record.directory} cannot be made: {error}") from error
        return record
