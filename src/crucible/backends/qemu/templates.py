"""Templates: machines saved once at "agent ready", from which every sandbox starts.

Found by a key of everything that shaped them, made once however many ask, checked before use,
thrown away when damaged, and evicted by least use under a limit. A machine that was started from
a template does not need it any more: it holds its memory by descriptor and its disk by link.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from crucible.backends.qemu import saved
from crucible.backends.qemu.saved import SavedMachine
from crucible.errors import TemplateDamaged
from crucible.images.lock import held
from crucible.images.report import Report, silent

Maker = Callable[[Path], Awaitable[None]]
Clearer = Callable[[Path], None]


class TemplateStore:
    def __init__(self, root: Path, *, limit_mib: int, report: Report = silent) -> None:
        self._root = root
        self._limit = limit_mib << 20
        self._report = report
        self._turns: dict[str, asyncio.Lock] = {}

    def find(self, key: str) -> SavedMachine | None:
        """The template, if there is one and it is whole. One that is not stays: it may be just replaced."""
        directory = self._root / key
        try:
            found = saved.load(directory)
        except TemplateDamaged:
            return None
        with contextlib.suppress(OSError):
            os.utime(directory)
        return found

    async def obtain(
        self, key: str, make: Maker, *, clear: Clearer = lambda directory: None
    ) -> SavedMachine:
        """The template of that key. `make` fills an empty directory, manifest included.

        `clear` gets the directory of a maker that died, to undo what it did elsewhere.
        """
        if (found := self.find(key)) is not None:
            return found
        async with self._turns.setdefault(key, asyncio.Lock()):
            lock = held(self._root / f".{key}.lock", stage="template", report=self._report)
            await asyncio.to_thread(lock.__enter__)
            try:
                if (found := self.find(key)) is not None:
                    return found
                self._discard_damaged(key)
                await self._make(key, make, clear)
            finally:
                lock.__exit__(None, None, None)
        self.evict(keep=key)
        made = self.find(key)
        if made is None:
            raise TemplateDamaged(f"{key} vanished while it was made")
        return made

    def evict(self, *, keep: str = "") -> list[str]:
        """Removes the least recently used until what is left fits; the newest one always stays."""
        entries = sorted(
            (_last_used(path), path)
            for path in self._root.iterdir()
            if path.is_dir() and not path.name.startswith(".")
        )
        total = sum(disk_usage(path) for _, path in entries)
        evicted = []
        for _, path in entries:
            if total <= self._limit:
                break
            if path.name != keep:
                total -= disk_usage(path)
                _discard(path)
                evicted.append(path.name)
        return evicted

    def _discard_damaged(self, key: str) -> None:
        """Only who holds the lock may: another could have put a whole one in its place."""
        if (self._root / key).is_dir():
            self._report("template", "the one that was there is damaged; it is made again")
            _discard(self._root / key)

    async def _make(self, key: str, make: Maker, clear: Clearer) -> None:
        building = self._root / f".{key}.making"
        clear(building)
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True, mode=0o700)
        started = time.monotonic()
        self._report("template", "booting a machine once to start all others from")
        try:
            await make(building)
            building.rename(self._root / key)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        self._report("template", f"ready after {time.monotonic() - started:.1f} s")


def remove_of_gone_images(root: Path, images: frozenset[str]) -> int:
    """Removes those whose image is none of these, by digest, and tells the bytes freed.

    Who is about to start from one sees that it is gone, and makes it again if the image is still there.
    """
    freed = 0
    for path in root.glob("[!.]*"):
        try:
            found = saved.read_facts(path)
        except TemplateDamaged:
            continue  # whoever needs it makes it again, and says so
        if found.image_digest not in images:
            freed += disk_usage(path)
            _discard(path)
    return freed


def template_key(facts: Mapping[str, object]) -> str:
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _last_used(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except FileNotFoundError:  # evicted by another process
        return 0.0


def disk_usage(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total


def _discard(directory: Path) -> None:
    """Out of sight first, so that nobody finds half of it."""
    grave = directory.parent / f".{directory.name}.{os.getpid()}.gone"
    with contextlib.suppress(OSError):
        directory.rename(grave)
    shutil.rmtree(grave, ignore_errors=True)
