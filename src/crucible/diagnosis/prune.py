"""Frees what nothing uses any more: leftovers of processes that died, and stock of older versions.

A sandbox holds its disks and its image by names of its own in its directory, and a running one its memory by
descriptor; so nothing here can take anything away from one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crucible.config import Config
from crucible.diagnosis.usage import size_of, statuses
from crucible.errors import CrucibleError
from crucible.sandbox.records import FILE_NAME, SandboxRecord, SnapshotRecord, open_records

# No single piece of work takes that long without touching its files.
_STALE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    path: Path
    why: str
    size_bytes: int


def find_prunable(config: Config) -> list[Prunable]:
    """What `prune` would remove. Changes nothing."""
    home = config.home
    finders = (
        _scratch(home),
        _templates(config),
        _bundles(config),
        _initramfs(config),
        _strays(config),
    )
    return [
        Prunable(path=path, why=why, size_bytes=size_of(path))
        for finder in finders
        for path, why in finder
    ]


def prune(config: Config) -> list[Prunable]:
    """Removes it and says what it was."""
    _bury_dead(config)
    removed = []
    for prunable in find_prunable(config):
        _remove(prunable.path)
        removed.append(prunable)
    return removed


Found = Iterator[tuple[Path, str]]


def _scratch(home: Path) -> Found:
    for path in _inside(home / "scratch"):
        if _is_stale(path):
            yield path, "left by a process that ended"


def _templates(config: Config) -> Found:
    """A template that no sandbox of today would start from: its kernel, image, agent or QEMU is another's."""
    root = config.home / "templates"
    current = _current_stock(config)
    for path in _inside(root):
        if path.name.endswith((".making", ".gone")):
            if not _is_locked(root / f"{'.'.join(path.name.split('.')[:2])}.lock") and _is_stale(
                path
            ):
                yield path, "an unfinished template"
        elif path.is_dir() and current is not None and not current.shaped(path):
            yield path, "a template of another version, or a damaged one"


def _bundles(config: Config) -> Found:
    """Images and kernels that are neither the current one of their shelf nor named by any record."""
    home, used = config.home, _used_images(config)
    shelves = [home / "kernels", *_inside(home / "images")]
    locks = {shelf: home / "locks" / f"image-{shelf.name}" for shelf in shelves}
    locks[home / "kernels"] = home / "locks" / "kernel"
    for shelf in shelves:
        try:
            current = (shelf / "current").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if _is_locked(locks[shelf]):
            continue
        for path in _inside(shelf):
            if path.is_dir() and path.name != current and path.name not in used:
                yield path, "an older version"


def _initramfs(config: Config) -> Found:
    from crucible import assemble
    from crucible.images.initramfs import initramfs_for
    from crucible.images.kernel import load_kernel

    if not (config.home / "initramfs").is_dir():
        return
    try:
        kernel = load_kernel(config.home)
        current = initramfs_for(config.home, assemble.agent_path(), kernel)
    except (CrucibleError, OSError):
        return
    for path in _inside(config.home / "initramfs"):
        if path != current and _is_stale(path):
            yield path, "made for an older agent or kernel"


def _strays(config: Config) -> Found:
    """Directories without a record: it is written before them and deleted after them."""
    if not (config.home / FILE_NAME).exists():
        return
    paths = [path for kind in ("sandboxes", "snapshots") for path in _inside(config.home / kind)]
    known = {record.directory for record in _records(config)}
    for path in paths:
        if path not in known and _is_stale(path):
            yield path, "no sandbox or snapshot has it"


def _used_images(config: Config) -> set[str]:
    """The names of the bundles that sandboxes and snapshots were made from."""
    return {record.image_digest[:12] for record in _records(config)}


def _records(config: Config) -> list[SandboxRecord | SnapshotRecord]:
    if not (config.home / FILE_NAME).exists():
        return []
    records = open_records(config.home)
    try:
        return [*records.sandboxes(), *records.snapshots()]
    finally:
        records.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    kernel: str
    agent: str
    vmm: str
    images: frozenset[str]

    def shaped(self, template: Path) -> bool:
        from crucible.backends.qemu import saved

        try:
            found = saved.load(template)
        except CrucibleError:
            return False
        ours = (self.kernel, self.agent, self.vmm)
        theirs = (found.kernel_digest, found.agent_digest, found.vmm)
        return ours == theirs and found.image_digest in self.images


def _current_stock(config: Config) -> _Stock | None:
    """None when that cannot be told, and then no template is called old."""
    from crucible import assemble
    from crucible.backends.qemu import host
    from crucible.images.catalog import list_images
    from crucible.images.kernel import load_kernel

    cache = config.home / "cache"
    try:
        return _Stock(
            kernel=load_kernel(config.home).digest,
            agent=host.file_digest(cache, assemble.agent_path()),
            vmm=host.find_host(cache).version,
            images=frozenset(image.digest for image in list_images(config.home)),
        )
    except (CrucibleError, OSError):
        return None


def _bury_dead(config: Config) -> None:
    from crucible import assemble
    from crucible.sandbox.reconcile import bury_dead_temporaries

    if not (config.home / FILE_NAME).exists():
        return
    records = open_records(config.home)
    try:
        bury_dead_temporaries(records, assemble.machines(config))
    finally:
        records.close()


def _inside(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _is_stale(path: Path) -> bool:
    newest = max((status.st_mtime for status in statuses(path)), default=0.0)
    return time.time() - newest > _STALE_S


def _is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove(path: Path) -> None:
    """Out of sight first, so that nobody finds half of it."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    grave = path.parent / f".{path.name}.{os.getpid()}.gone"
    try:
        path.rename(grave)
    except FileNotFoundError:
        return
    shutil.rmtree(grave, ignore_errors=True)
