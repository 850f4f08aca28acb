"""Opens temporary sandboxes: out of the pool where there is one that fits, here, or elsewhere where this host fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from crucible.errors import BootFailed, GuestSilent, SetupError, TemplateDamaged
from crucible.sandbox.backend import Disk
from crucible.sandbox.doors.values import Values
from crucible.sandbox.finishing import finish
from crucible.sandbox.gathering import Images
from crucible.sandbox.hands import Hands
from crucible.sandbox.holding import Held
from crucible.sandbox.machines import Machines
from crucible.sandbox.new_records import NewRecords, new_id
from crucible.sandbox.noting import Notes
from crucible.sandbox.placing import Placement, place_elsewhere, place_instead
from crucible.sandbox.records import LOCAL, Records, SandboxRecord
from crucible.sandbox.remains import Remains
from crucible.sandbox.spec import SandboxSpec, check_name

if TYPE_CHECKING:
    from crucible.network.secrets import Secret
    from crucible.sandbox.pool.figures import StageFigures
    from crucible.sandbox.pool.pool import Pool
    from crucible.sandbox.pool.turnstile import Turnstile

# Why a sandbox may be tried elsewhere: this host failed, and not what was asked of it.
OUR_FAULT = (BootFailed, GuestSilent, SetupError, TemplateDamaged)

# For what the command of a `run` leaves running, where it has a volume to which that may still write.
_RUN_GRACE_S = 5.0


class Opening:
    """A daemon has a pool, a turnstile and figures; a process that ends with its command has none."""

    def __init__(
        self,
        *,
        records: Records,
        machines: Machines,
        images: Images,
        new_records: NewRecords,
        remains: Remains,
        secrets: Values,
        notes: Notes,
        hands: Hands,
    ) -> None:
        self.pool: Pool | None = None
        self.turnstile: Turnstile | None = None
        self.figures: StageFigures | None = None
        self._records = records
        self._machines = machines
        self._images = images
        self._new_records = new_records
        self._remains = remains
        self._secrets = secrets
        self._notes = notes
        self._hands = hands

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
        placed = await place_elsewhere(self._machines, spec)
        async with AsyncExitStack() as stack:
            try:
                opening = self._open(
                    spec, placed, name=name, secrets=secrets, disk=disk, owner=owner
                )
                held = await stack.enter_async_context(opening)
            except OUR_FAULT as error:
                if placed is not None:
                    raise
                placed = await place_instead(self._machines, spec, error)
                opening = self._open(
                    spec, placed, name=name, secrets=secrets, disk=disk, owner=owner
                )
                held = await stack.enter_async_context(opening)
            yield held

    def note_stages(self, stages: Sequence[tuple[str, float]]) -> None:
        """For whoever asks how fast things go; nobody does in a process that ends with its command."""
        if self.figures is not None:
            self.figures.note(stages)

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
        image = await self._images.gather(spec, placed)
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
                record = await self._new_records.add(
                    record_id, own_name, spec, image, is_temporary=True, placed=placed, owner=owner
                )
            else:
                record = warm.record
            self._notes.tell_place(record)
            self._secrets.learn(record.id, secrets)
            try:
                if warm is None:
                    self._hands.claim_volumes(record, is_first=True)
                    held = await self._hands.boot(record, lifetime="command", disk=disk)
                else:
                    held = await self._hands.take_up(record, image, warm.backend, warm.given())
                try:
                    if warm is not None:
                        self._hands.claim_volumes(record, is_first=True)
                    yield held
                    await self._hands.keep_volumes(held, grace_s=_RUN_GRACE_S)
                finally:
                    await finish(self._hands.end(held))
            finally:
                self._erase_or_leave(record)

    def _erase_or_leave(self, record: SandboxRecord) -> None:
        """What may still run elsewhere keeps its record, in nobody's hands: whoever comes next ends it."""
        is_remote = self._machines.backend(record.backend).is_remote
        if is_remote and self._machines.remote().may_run(record.directory):
            self._records.update(record.id, holder_pid=None, holder_started="")
        else:
            self._remains.erase(record)
