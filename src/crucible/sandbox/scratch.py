"""Directories for work that lasts no longer than the process that does it.

A name tells its maker, so that what a dead process left is known as such. A machine that is booted in
one is called like its directory, so that it can be found and buried too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.sandbox import processes

_DIRECTORY = "scratch"


@contextmanager
def scratch_directory(home: Path, purpose: str) -> Iterator[Path]:
    pid = os.getpid()
    mark = (processes.start_mark(pid) or "").replace(":", "_")
    path = home / _DIRECTORY / f"{purpose}-{pid}-{mark}-{os.urandom(4).hex()}"
    path.mkdir(parents=True, mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def abandoned(home: Path) -> list[Path]:
    """Those whose maker is gone."""
    return [path for path in (home / _DIRECTORY).glob("*") if not _has_maker(path.name)]


def _has_maker(name: str) -> bool:
    words = name.rsplit("-", 3)
    if len(words) != 4 or not words[1].isdecimal():
        return False
    return processes.is_at_work(int(words[1]), words[2].replace("_", ":"))
