"""Files that appear whole or not at all, and locks that the kernel drops when their holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import HostDiskFull


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full disk is an error with a name."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostDiskFull(str(path)) from error
        raise


@contextmanager
def locked(path: Path, *, is_shared: bool = False, waits: bool = True) -> Iterator[bool]:
    """Holds a lock file for the block; tells whether it was to be had, which matters only without waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    kind = (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    try:
        try:
            fcntl.flock(descriptor, kind)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
