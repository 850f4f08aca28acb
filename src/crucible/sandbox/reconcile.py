"""Repairs what a process that died had begun. Run before anything else touches the records."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from crucible.sandbox import processes
from crucible.sandbox.backend import KeepsMachines
from crucible.sandbox.manager import handle_of
from crucible.sandbox.records import Records, SandboxRecord


def bury_dead_temporaries(records: Records, backends: list[KeepsMachines]) -> list[str]:
    """Temporary sandboxes whose process is gone: their machine died with it, their files did not."""
    buried = []
    for record in records.sandboxes():
        if record.is_temporary and not is_held(record):
            for backend in backends:
                if backend.name == record.backend:
                    backend.bury(record.directory, record.id, handle_of(record))
            shutil.rmtree(record.directory, ignore_errors=True)
            records.delete(record.id)
            buried.append(record.name)
    return buried


def remove_strays(home: Path, records: Records) -> None:
    """Directories that no record names. Only the owner may do this: it is the one who makes them."""
    known = {record.id for record in records.sandboxes()}
    with contextlib.suppress(FileNotFoundError):
        for path in (home / "sandboxes").iterdir():
            if path.name not in known:
                shutil.rmtree(path, ignore_errors=True)


def is_held(record: SandboxRecord) -> bool:
    return processes.is_running(record.holder_pid, record.holder_started)


def observed_state(record: SandboxRecord) -> str:
    """The record's state, unless the host says otherwise."""
    if record.state in ("running", "paused") and not processes.is_running(
        record.pid, record.pid_started
    ):
        return "stopped"
    if record.state in ("starting", "creating", "stopping", "removing") and not is_held(record):
        return "stopped" if record.has_disk else "created"
    return record.state
