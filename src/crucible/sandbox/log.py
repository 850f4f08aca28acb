"""What the resident program tells whoever reads its log: one line each, with the time. It does not grow for ever."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from crucible.client.connection import LARGEST_LOG_BYTES

_LOOK_S = 30.0


def tell(text: str) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now} {text}", file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log


async def keep_short(path: Path) -> None:
    """Begins the file anew when it has become long, until it is cancelled. What was said last stays beside it."""
    while True:
        await asyncio.sleep(_LOOK_S)
        begin_anew_if_long(path)


def begin_anew_if_long(path: Path, *, descriptors: tuple[int, ...] = (1, 2)) -> None:
    """Only for a process that writes to this very file: a supervisor's log is its own business."""
    try:
        found, own = path.stat(), os.fstat(descriptors[-1])
        if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
            return
        if found.st_size <= LARGEST_LOG_BYTES:
            return
        path.replace(path.with_suffix(".log.old"))
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    for descriptor in descriptors:
        os.dup2(fresh, descriptor)
    os.close(fresh)
