"""Takes Crucible's state off this machine: every sandbox is ended, then the directory goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crucible.client.connection import Owner
from crucible.client.protocol import json_frame
from crucible.config import Config
from crucible.diagnosis.usage import size_of
from crucible.errors import BackendUnknown, PathRefused, Refused

if TYPE_CHECKING:
    from crucible.sandbox.records import SandboxRecord

_OURS = frozenset(
    (
        "blanks", "cache", "images", "initramfs", "kernels", "locks", "owner.lock", "owner.log",
        "owner.log.old", "owner.sock", "records.sqlite", "records.sqlite-shm",
        "records.sqlite-wal", "sandboxes", "scratch", "snapshots", "templates", "volumes",
    )
)  # fmt: skip
_PROOF = frozenset(("records.sqlite", "kernels", "images", "locks"))
_OWNER_DEADLINE_S = 60.0
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is about to go, for the user to agree to."""

    home: Path
    size_bytes: int
    sandboxes: tuple[str, ...]


def uninstall(config: Config, confirm: Callable[[Removal], bool]) -> Removal | None:
    """Removes the whole state directory. None when there is none, or the user did not agree.

    Raises PathRefused for a directory that does not look like ours, Refused while a command still runs.
    """
    home = config.home
    if not home.exists():
        return None
    check_ours(home)
    records = _records_of(home)
    _check_idle(records)
    names = tuple(record.name for record in records if not record.is_temporary)
    removal = Removal(home=home, size_bytes=size_of(home), sandboxes=names)
    if not confirm(removal):
        return None
    lock = _take_ownership(home)
    try:
        _end_machines(config)
        shutil.rmtree(home)
    finally:
        os.close(lock)
    return removal


def check_ours(home: Path) -> None:
    """Whatever else lies in it is not ours to remove, and makes the directory suspect as a whole."""
    hint = "Check CRUCIBLE_HOME; remove it by hand if it really is Crucible's"
    if home.is_symlink() or not home.is_dir():
        raise PathRefused(f"{home} is not a directory of its own", hint=hint)
    if home.resolve() in (Path("/"), Path.home().resolve()):
        raise PathRefused(f"{home} is not Crucible's alone", hint=hint)
    if home.stat().st_uid != os.geteuid():
        raise PathRefused(f"{home} belongs to another user", hint=hint)
    names = {path.name for path in home.iterdir()}
    strangers = sorted(names - _OURS)
    if strangers:
        shown = ", ".join(strangers[:5])
        raise PathRefused(f"{home} holds what Crucible never made: {shown}", hint=hint)
    if names and not names & _PROOF:
        raise PathRefused(f"{home} does not look like Crucible's state", hint=hint)


def _records_of(home: Path) -> list[SandboxRecord]:
    from crucible.sandbox.records import FILE_NAME, open_records

    if not (home / FILE_NAME).exists():
        return []
    records = open_records(home)
    try:
        return records.sandboxes()
    finally:
        records.close()


def _check_idle(records: list[SandboxRecord]) -> None:
    from crucible.sandbox.reconcile import is_held

    for record in records:
        if record.is_temporary and record.state != "warm" and is_held(record):
            raise Refused(
                f"Sandbox {record.name!r} is in use by process {record.holder_pid}",
                hint="Wait for that command, or end it, then try again",
            )


def _take_ownership(home: Path) -> int:
    """Sends the owner away, and becomes it: nobody can start another meanwhile."""
    from crucible.sandbox.succession import hold_lock

    deadline = time.monotonic() + _OWNER_DEADLINE_S
    while time.monotonic() < deadline:
        if (lock := hold_lock(home)) is not None:
            return lock
        _send_owner_away(home)
        time.sleep(0.05)
    raise Refused(
        "The program that holds the sandboxes does not leave",
        hint="End the commands that still run, then try again",
    )


def _send_owner_away(home: Path) -> None:
    connection = Owner(home).connect_if_running()
    if connection is None:
        return
    # It may be ending by itself just now; whether it is gone is told by its lock.
    with connection, contextlib.suppress(OSError):
        connection.settimeout(_ANSWER_S)
        connection.sendall(json_frame({"verb": "shutdown"}))
        while connection.recv(4096):
            pass


def _end_machines(config: Config) -> None:
    from crucible import assemble
    from crucible.sandbox.holding import handle_of

    machines = assemble.machines(config)
    records = _records_of(config.home)
    _check_idle(records)
    for record in records:
        with contextlib.suppress(BackendUnknown):
            backend = machines.backend(record.backend)
            backend.bury(record.directory, record.id, handle_of(record))
