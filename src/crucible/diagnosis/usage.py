"""What Crucible's state takes up on disk, by kind. A file with several names is counted once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crucible.config import Config

# In this order a shared file is put down to whoever brought it: a sandbox's link to its image is the image's.
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("images", ("images",)),
    ("kernels", ("kernels", "initramfs")),
    ("templates", ("templates", "blanks")),
    ("snapshots", ("snapshots",)),
    ("sandboxes", ("sandboxes",)),
    ("volumes", ("volumes",)),
    ("cache", ("cache", "locks", "scratch")),
)
_COUNTED = {"images", "templates", "snapshots", "sandboxes", "volumes", "kernels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`size_bytes` is what the disk really gives for it: holes cost nothing."""

    kind: str
    items: int
    size_bytes: int
    reclaimable_bytes: int = 0


def disk_usage(config: Config) -> list[Usage]:
    """All kinds, also those that take nothing; the rest of the directory is `records`."""
    from crucible.diagnosis.prune import find_prunable

    seen: set[tuple[int, int]] = set()
    reclaimable: dict[str, int] = {}
    for prunable in find_prunable(config):
        kind = _kind_of(config.home, prunable.path)
        reclaimable[kind] = reclaimable.get(kind, 0) + prunable.size_bytes
    usages = []
    for kind, names in _KINDS:
        size = sum(_measure(config.home / name, seen) for name in names)
        usages.append(
            Usage(
                kind=kind,
                items=_count(config.home, kind),
                size_bytes=size,
                reclaimable_bytes=reclaimable.get(kind, 0),
            )
        )
    rest = sum(_measure(path, seen) for path in _rest(config.home))
    usages.append(Usage(kind="records", items=1 if rest else 0, size_bytes=rest))
    return usages


def size_of(path: Path) -> int:
    """What would be free if it were removed: files that have another name elsewhere do not count."""
    return sum(
        status.st_blocks * 512
        for status in statuses(path)
        if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
    )


def _measure(path: Path, seen: set[tuple[int, int]]) -> int:
    total = 0
    for status in statuses(path):
        identity = (status.st_dev, status.st_ino)
        if identity not in seen:
            seen.add(identity)
            total += status.st_blocks * 512
    return total


def statuses(path: Path) -> Iterator[os.stat_result]:
    """Of everything there, links not followed; what vanishes meanwhile is passed over."""
    try:
        status = path.lstat()
        yield status
        if stat.S_ISDIR(status.st_mode):
            for inner in path.iterdir():
                yield from statuses(inner)
    except (FileNotFoundError, PermissionError):
        return


def _count(home: Path, kind: str) -> int:
    if kind not in _COUNTED:
        return 0
    if kind == "images":
        built, pulled = (home / kind).glob("*/current"), (home / kind).glob("oci/tags/*.json")
        return sum(1 for _ in built) + sum(1 for _ in pulled)
    try:
        inner = [path for path in (home / kind).iterdir() if not path.name.startswith(".")]
    except OSError:
        return 0
    return sum(1 for path in inner if path.is_dir())


def _rest(home: Path) -> list[Path]:
    known = {name for _, names in _KINDS for name in names}
    try:
        return [path for path in home.iterdir() if path.name not in known]
    except OSError:
        return []


def _kind_of(home: Path, path: Path) -> str:
    first = path.relative_to(home).parts[0]
    return next((kind for kind, names in _KINDS if first in names), "records")
