"""Who may write a volume, and what becomes of it when that sandbox stops."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import CrucibleError, GuestRefused, SandboxError, VolumeBusy
from crucible.images import lock
from crucible.images.report import NOTICE, Report
from crucible.sandbox import processes
from crucible.sandbox.holding import Held
from crucible.sandbox.mounts import Mount, parse_mount
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.volumes import Unkept, Volumes

# Asked for when nobody else can change who writes what.
Sandboxes = Callable[[], Iterable[SandboxRecord]]

_LIVELY = ("starting", "running", "paused", "stopping", "broken")


def claim(record: SandboxRecord, sandboxes: Sandboxes, home: Path, *, is_first: bool) -> None:
    """Makes a sandbox that is about to start the one writer of its volumes; the first time, missing ones are made.

    Raises VolumeBusy if another that runs is the writer of one. Of two that ask at once, one gets it.
    """
    volumes = Volumes(home)
    mounts = [mount for mount in map(parse_mount, record.spec.mounts) if mount.is_volume]
    with _alone(home):
        for mount in mounts:
            if mount.kind == "volume":
                _refuse_second_writer(volumes, mount.source, sandboxes(), own_id=record.id)
        for mount in mounts:
            if mount.kind == "volume" and is_first:
                volumes.create_missing(mount.source)
            volumes.find(mount.source)
        for mount in mounts:
            if mount.kind == "volume":
                volumes.set_writer(mount.source, record.id)


def remove(name: str, sandboxes: Sandboxes, home: Path) -> None:
    """Raises VolumeBusy if a sandbox that runs will write it back when it stops."""
    volumes = Volumes(home)
    volumes.find(name)
    with _alone(home):
        _refuse_second_writer(volumes, name, sandboxes())
        volumes.remove(name)


def users(name: str, sandboxes: Iterable[SandboxRecord]) -> list[str]:
    """The names of the sandboxes that have it, running or not."""
    return [record.name for record in sandboxes if name in map(_volume_of, record.spec.mounts)]


async def keep(held: Held, home: Path, report: Report, *, grace_s: float) -> None:
    """Takes what a sandbox has in its volumes back for the next one, once nothing writes to them any more.

    What cannot be kept is told, and is no reason not to stop.
    """
    mounts = list(_written(held.record))
    if not mounts:
        return
    try:
        # A machine that an older Crucible booted refuses this: its volumes are kept as they are now.
        with contextlib.suppress(GuestRefused):
            await held.machine.end_processes(grace_s)
    except SandboxError as error:
        # Who does not answer this will not send its files either; nobody should have to wait for that.
        for mount in mounts:
            _tell_unkept(mount.source, error, report)
        return
    for mount in mounts:
        try:
            pieces = held.machine.files.tar_out(os.fsencode(mount.target))
            await Volumes(home).save(mount.source, pieces)
            Unkept(held.record.directory).drop(mount.source)
        except (CrucibleError, OSError) as error:
            _tell_unkept(mount.source, error, report)


def _tell_unkept(name: str, error: CrucibleError | OSError, report: Report) -> None:
    why = error.message if isinstance(error, CrucibleError) else str(error)
    report(NOTICE, f"warning: The volume {name!r} is as it was before: {why}")


def _volume_of(text: str) -> str:
    mount = parse_mount(text)
    return mount.source if mount.is_volume else ""


def _written(record: SandboxRecord) -> Iterator[Mount]:
    return (mount for mount in map(parse_mount, record.spec.mounts) if mount.kind == "volume")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Between processes too: a `run` has its own."""
    with lock.held(home / "locks" / "volumes", stage="volume"):
        yield


def _refuse_second_writer(
    volumes: Volumes, name: str, sandboxes: Iterable[SandboxRecord], *, own_id: str = ""
) -> None:
    writer = volumes.writer(name)
    for record in sandboxes:
        is_other = record.id == writer and record.id != own_id
        if is_other and record.state in _LIVELY and _lives(record):
            raise VolumeBusy(name, record.name)


def _lives(record: SandboxRecord) -> bool:
    return processes.is_running(record.pid, record.pid_started) or processes.is_at_work(
        record.holder_pid, record.holder_started
    )
