"""A running sandbox in this process's hands, and how a record says in whose hands it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from crucible.errors import GuestRefused
from crucible.images.catalog import Image
from crucible.sandbox import processes
from crucible.sandbox.backend import Backend, Machine, MachineHandle
from crucible.sandbox.doors.doors import Doors
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import Records, SandboxRecord
from crucible.values import dataclass, field

# In a sandbox's directory: what its kernel had said when it ended by itself.
CONSOLE_NAME = "console.log"


@dataclass(slots=True, kw_only=True)
class Held:
    """`has_strangers`: commands run in it that this process did not start and has not taken up yet.

    `awake` is clear while it is paused; who waits for it looks again when it is set.
    """

    record: SandboxRecord
    machine: Machine
    backend: Backend
    image: Image
    log: OutputLog
    doors: Doors
    has_strangers: bool = False
    watcher: asyncio.Task[None] | None = None
    awake: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)

    @contextmanager
    def used(self) -> Iterator[None]:
        """For as long as somebody has something to do with it, it is not idle."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.used_at = time.monotonic()

    def touch(self) -> None:
        self.used_at = time.monotonic()

    def idle_s(self) -> float:
        if self.users or self.doors.is_busy:
            self.used_at = time.monotonic()
        return time.monotonic() - self.used_at

    async def furnish(self) -> None:
        """Opens its doors and closes what its specification closes, once all that it is given is in it."""
        spec = self.record.spec
        await self.doors.open(spec)
        if spec.read_only:
            # A command makes its working directory where it is missing; soon none can.
            with contextlib.suppress(GuestRefused):
                path = os.fsencode(spec.workdir or self.image.workdir)
                await self.machine.files.mkdir(path, parents=True)
        if spec.read_only or spec.drop_capabilities:
            await self.machine.confine(read_only=spec.read_only, no_powers=spec.drop_capabilities)


def handle_of(record: SandboxRecord) -> MachineHandle | None:
    if record.pid is None:
        return None
    return MachineHandle(pid=record.pid, started=record.pid_started, detail=record.pid_detail)


def is_held(record: SandboxRecord) -> bool:
    """Whether the process that said it holds this sandbox still lives."""
    return processes.is_at_work(record.holder_pid, record.holder_started)


def holder() -> dict[str, object]:
    """This process, as a record names it."""
    pid = os.getpid()
    return {"holder_pid": pid, "holder_started": processes.start_mark(pid) or ""}


def claim_user(records: Records) -> int | None:
    """For a machine that is about to start. Only root can give it one, and only root needs to."""
    if os.geteuid() != 0:
        return None
    from crucible.sandbox import host_users

    return host_users.claim(records.host_uids())


def release_user(record: SandboxRecord) -> None:
    """The machine has ended, or never was: another may have its user."""
    if record.host_uid is not None:
        from crucible.sandbox import host_users

        host_users.release(record.host_uid)


def _set(event: asyncio.Event) -> asyncio.Event:
    event.set()
    return event
