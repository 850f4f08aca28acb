"""Who is the owner: one process at a time, by a lock. The daemon goes before those that are started on demand."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from crucible.client.connection import Owner as Client
from crucible.client.exchange import Unseen, ask
from crucible.errors import OwnerUnreachable, StateDamaged
from crucible.sandbox import processes

LOCK_NAME = "owner.lock"
DAEMON_LOCK_NAME = "daemon.lock"
_PATIENCE_S = 20.0
_DAEMON_PATIENCE_S = 80.0
_LOOK_AGAIN_S = 0.02


def hold_lock(home: Path) -> int | None:
    """Our right to be the owner, as a descriptor; None if another process is it, or is about to be.

    One that has stopped listening is on its way out, and is waited for.
    """
    descriptor = _open(home, LOCK_NAME)
    deadline = time.monotonic() + _PATIENCE_S
    while _daemon_lives(home) or not _is_locked(descriptor):
        if _is_listening(home) or time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(_LOOK_AGAIN_S)
    _outlast(descriptor)
    _write(descriptor, str(os.getpid()))
    return descriptor


def hold_daemon_lock(home: Path) -> int | None:
    """The same for a daemon: None only if another daemon is there. An owner on demand is asked to leave."""
    claim = _open(home, DAEMON_LOCK_NAME)
    deadline = time.monotonic() + _PATIENCE_S
    while not _is_locked(claim):
        if _is_listening(home) or time.monotonic() > deadline:
            os.close(claim)
            return None
        time.sleep(_LOOK_AGAIN_S)
    # Written before the owner leaves: nobody who is started on demand tries to follow it now.
    _write(claim, f"{os.getpid()} {processes.start_mark(os.getpid()) or ''}")
    descriptor = _open(home, LOCK_NAME)
    deadline = time.monotonic() + _DAEMON_PATIENCE_S
    while not _is_locked(descriptor):
        if time.monotonic() > deadline:
            raise OwnerUnreachable(
                f"The program that holds the sandboxes did not leave within {_DAEMON_PATIENCE_S:g} s",
                hint="Try again when its commands have ended",
            )
        _ask_to_leave(home)
        time.sleep(_LOOK_AGAIN_S)
    _outlast(descriptor)
    _write(descriptor, str(os.getpid()))
    return descriptor


def _open(home: Path, name: str) -> int:
    path = home / name
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateDamaged(
            f"{path} cannot be used: {error.strerror}", hint="Move it away and try again"
        ) from None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _outlast(descriptor: int) -> None:
    """One that was killed may have let go of this lock before its ports and whatever else we are going to take."""
    before = os.pread(descriptor, 20, 0)
    deadline = time.monotonic() + _PATIENCE_S
    while before.isdigit() and processes.is_dying(int(before)) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _daemon_lives(home: Path) -> bool:
    try:
        pid, mark = (home / DAEMON_LOCK_NAME).read_text().split()
    except (OSError, ValueError):
        return False
    return pid.isdecimal() and processes.is_running(int(pid), mark)


def _is_listening(home: Path) -> bool:
    connection = Client(home).connect_if_running()
    if connection is None:
        return False
    connection.close()
    return True


def _ask_to_leave(home: Path) -> None:
    connection = Client(home).connect_if_running()
    if connection is not None:
        found = [connection]
        with contextlib.suppress(OwnerUnreachable, IndexError):
            ask(found.pop, {"verb": "shutdown"}, progress=Unseen())
