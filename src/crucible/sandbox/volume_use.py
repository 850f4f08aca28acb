"""Who may write a volume, and what becomes of it when that sandbox stops."""

from __future__ import annotations

from pathlib import Path

from crucible.errors import CrucibleError
from crucible.images.report import NOTICE, Report
from crucible.sandbox.holding import Held
from crucible.sandbox.mounting import keep_volumes
from crucible.sandbox.mounts import parse_mount
from crucible.sandbox.records import Records, SandboxRecord
from crucible.sandbox.volumes import refuse_second_writer


def claim(record: SandboxRecord, records: Records) -> None:
    """Raises VolumeBusy if another sandbox that runs will write one of its volumes back."""
    for mount in map(parse_mount, record.spec.mounts):
        if mount.kind == "volume":
            refuse_second_writer(mount.source, records.sandboxes(), own_id=record.id)


async def keep(held: Held, home: Path, report: Report) -> None:
    """What cannot be kept is told, and is no reason not to stop."""
    try:
        await keep_volumes(held.machine.files, held.record.spec, home)
    except (CrucibleError, OSError) as error:
        why = error.message if isinstance(error, CrucibleError) else str(error)
        report(NOTICE, f"warning: A volume is as it was before: {why}")
