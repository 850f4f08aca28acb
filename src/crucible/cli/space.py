"""Space on the host's disk: what a directory really uses, and how to be rid of it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

_BLOCK = 512


def used_bytes(path: Path) -> int:
    """Blocks in use, as `du` counts: sparse files count little, hard links once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    waiting = [path]
    while waiting:
        current = waiting.pop()
        try:
            status = current.lstat()
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            seen.add(identity)
            total += status.st_blocks * _BLOCK
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(current.iterdir())
        except OSError:
            continue  # gone meanwhile, or not ours to see
    return total


def remove_tree(path: Path) -> None:
    """Also what is write-protected, as templates are; links are removed, never followed."""

    def unlock(function: object, name: str, error: object) -> None:
        parent = Path(name).parent
        parent.chmod(0o700)
        if Path(name).is_dir() and not Path(name).is_symlink():
            Path(name).chmod(0o700)
            shutil.rmtree(name)
        else:
            os.unlink(name)  # noqa: PTH108 - the name as rmtree gave it

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=unlock)
