"""Starts named sandboxes: the first time with all that they are given, later from their own disk."""

from __future__ import annotations

from pathlib import Path

from crucible.config import Config
from crucible.errors import WrongState
from crucible.images.report import Report
from crucible.sandbox import seeding
from crucible.sandbox.backend import Disk
from crucible.sandbox.finishing import finish
from crucible.sandbox.gathering import Images
from crucible.sandbox.hands import Hands
from crucible.sandbox.holding import Held, claim_user, holder
from crucible.sandbox.machines import Machines
from crucible.sandbox.noting import Notes
from crucible.sandbox.opening import OUR_FAULT
from crucible.sandbox.placing import place_instead
from crucible.sandbox.records import Records, SandboxRecord
from crucible.sandbox.remains import Remains


class Starting:
    """Whoever calls holds the sandbox's lock."""

    def __init__(
        self,
        *,
        config: Config,
        records: Records,
        machines: Machines,
        images: Images,
        remains: Remains,
        notes: Notes,
        hands: Hands,
        report: Report,
    ) -> None:
        self._config = config
        self._records = records
        self._machines = machines
        self._images = images
        self._remains = remains
        self._notes = notes
        self._hands = hands
        self._report = report

    async def start(self, record: SandboxRecord) -> SandboxRecord:
        if record.id in self._hands.held:
            if record.state == "paused":
                raise WrongState(record.name, "paused", "stopped",
                                 hint=f"Use `crucible resume {record.name}`")  # fmt: skip
            return record
        record = await self._remains.settle_or_miss(record)
        is_first = not record.has_disk
        is_remote = self._machines.backend(record.backend).is_remote
        user = None if is_remote else claim_user(self._records)
        record = self._records.update(
            record.id, state="starting", note="", host_uid=user, **holder()
        )
        try:
            self._hands.claim_volumes(record, is_first=is_first)
            if is_first and not is_remote:
                held = await self._boot_first(record)
            else:
                disk: Disk = "fresh" if is_first else "kept"
                held = await self._hands.boot(record, lifetime="sandbox", disk=disk)
            if is_first and record.host_directory:
                source = Path(record.host_directory)
                await seeding.upload(
                    held.machine, source, held.image, record.directory, self._report,
                    own_state=self._config.home,
                    include_credentials=record.spec.include_credentials,
                )  # fmt: skip
            await self._hands.furnish(held, is_first=is_first)
        except BaseException:
            await finish(self._abandon(record))
            raise
        return self._hands.mark_running(held)

    async def _boot_first(self, record: SandboxRecord) -> Held:
        """Here, else where it may go instead: there is nothing of it yet that would have to move."""
        try:
            return await self._hands.boot(record, lifetime="sandbox", disk="fresh")
        except OUR_FAULT as error:
            placed = await place_instead(
                self._machines, record.spec, error,
                takes_directory=record.host_directory is not None,
            )  # fmt: skip
        record = self._records.update(
            record.id, backend=placed.backend.name, isolation=placed.isolation, placed=placed.why,
            image_digest=self._images.of(record.spec, placed.backend).digest,
        )  # fmt: skip
        self._notes.tell_place(record)
        return await self._hands.boot(record, lifetime="sandbox", disk="fresh")

    async def _abandon(self, record: SandboxRecord) -> None:
        await self._hands.abandon(record)
        self._remains.mark_stopped(record)
