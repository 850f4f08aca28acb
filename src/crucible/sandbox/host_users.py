"""Users of the host that machines run as when root starts them: one for each, on the whole host.

Two homes of root know nothing of each other, yet two VMMs of one user could signal and trace each other. So
users are given out in one place. A claim names the process that made it; it holds while that lives, and
while anything runs as the user, so that a machine whose holder was killed keeps its own. It is void after that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import StateDamaged
from crucible.sandbox import processes

# Above every range that distributions hand out, so that no account of the host is ever meant.
FIRST = 1_900_000_001
COUNT = 100_000
PLACE = Path("/run/crucible/users")
_LOCK = "lock"
_LOCK_DEADLINE_S = 20.0
_LOOK_AGAIN_S = 0.002


def claim(avoid: Collection[int] = ()) -> int:
    """A user that nobody else on this host has now, and that is not among `avoid`."""
    with _locked() as lock:
        last = _number(os.pread(lock, 32, 0))
        for step in range(1, COUNT + 1):
            uid = FIRST + (last + step) % COUNT
            if uid not in avoid and _is_free(uid):
                (PLACE / str(uid)).write_text(_me())
                os.pwrite(lock, b"%-31d\n" % (uid - FIRST), 0)
                return uid
    raise StateDamaged(f"All {COUNT} users for machines in {PLACE} are taken")


def release(uid: int) -> None:
    """For whoever ended the machine. A claim that somebody else has made meanwhile is left alone."""
    with _locked():
        claimer = _claimer(uid)
        if claimer == _me() or not _lives(claimer):
            (PLACE / str(uid)).unlink(missing_ok=True)


def drop_void() -> None:
    """Removes the claims that hold no more."""
    if not PLACE.exists():
        return
    with _locked():
        for path in PLACE.iterdir():
            if path.name.isdecimal() and _is_free(int(path.name)):
                path.unlink()


def _is_free(uid: int) -> bool:
    claimer = _claimer(uid)
    return claimer is None or not (_lives(claimer) or _is_run_by(uid))


def _claimer(uid: int) -> str | None:
    try:
        return (PLACE / str(uid)).read_text(errors="replace")
    except FileNotFoundError:
        return None


def _lives(claimer: str | None) -> bool:
    pid, _, mark = (claimer or "").partition(" ")
    return pid.isdecimal() and processes.is_running(int(pid), mark)


def _is_run_by(uid: int) -> bool:
    """Whether any process of the host runs as this user, as far as we can see."""
    wanted = str(uid).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                text = (entry / "status").read_bytes()
                if wanted in text[text.index(b"\nUid:") :].split(b"\n", 2)[1].split():
                    return True
    return False


def _me() -> str:
    pid = os.getpid()
    return f"{pid} {processes.start_mark(pid)}"


def _number(text: bytes) -> int:
    return int(text) if text.strip().isdigit() else 0


@contextmanager
def _locked() -> Iterator[int]:
    try:
        PLACE.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(PLACE / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateDamaged(
            f"{PLACE} cannot be used: {error.strerror}",
            hint="Users for machines are given out there; it must be writable for root",
        ) from None
    deadline = time.monotonic() + _LOCK_DEADLINE_S
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateDamaged(
                        f"{PLACE / _LOCK} was not given free in {_LOCK_DEADLINE_S:g} s"
                    ) from None
                time.sleep(_LOOK_AGAIN_S)
        yield lock
    finally:
        os.close(lock)
