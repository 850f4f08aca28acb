"""One builder at a time: a lock between processes that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.images.report import Report, silent


@contextmanager
def held(path: Path, *, stage: str, report: Report = silent) -> Iterator[None]:
    """Holds the lock file `path` for the block. Waits without limit: the holder's death frees it.

    Whoever gets in looks first whether another process has done the work meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(stage, "waiting for another process that is preparing it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
