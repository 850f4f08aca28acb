"""Repairs what a process that died had begun. Run before anything else touches the records."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from crucible.errors import BackendUnknown, CrucibleError
from crucible.sandbox import log, scratch
from crucible.sandbox.holding import handle_of, is_held, release_user
from crucible.sandbox.machines import Machines
from crucible.sandbox.records import Records

__all__ = ["bury_dead_temporaries", "is_held", "remove_strays"]


def bury_dead_temporaries(records: Records, machines: Machines) -> list[str]:
    """Temporary sandboxes whose process is gone: their machine died with it, their files did not.

    One elsewhere did not die; where it cannot be ended now, its record stays for the next who comes by.
    """
    buried = []
    for record in records.sandboxes():
        if record.is_temporary and not is_held(record):
            try:
                backend = machines.backend(record.backend)
                backend.bury(record.directory, record.id, handle_of(record))
            except BackendUnknown:
                pass
            except CrucibleError as error:
                log.tell(f"sandbox {record.name} is not cleaned up yet: {error.message}")
                continue
            shutil.rmtree(record.directory, ignore_errors=True)
            records.delete(record.id)
            release_user(record)
            buried.append(record.name)
    return buried


def remove_strays(home: Path, records: Records, machines: Machines) -> None:
    """Directories of sandboxes that no record names, and scratch whose maker is gone.

    A record is written before its directory is made, so what is found first and not recorded then
    belongs to nobody.
    """
    found = list((home / "sandboxes").glob("*"))
    known = {record.id for record in records.sandboxes()}
    for path in found:
        if path.name not in known:
            shutil.rmtree(path, ignore_errors=True)
    for path in scratch.abandoned(home):
        for backend in machines.backends:
            backend.bury(path, path.name, None)
        shutil.rmtree(path, ignore_errors=True)
    if os.geteuid() == 0:
        from crucible.sandbox import host_users

        host_users.drop_void()
