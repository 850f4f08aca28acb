"""Named volumes: trees that sandboxes share one after the other, each kept as one archive under the state directory.

What a sandbox wrote is never unpacked on the host, only handed to the next sandbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from crucible.errors import VolumeBusy, VolumeMissing, VolumeTaken, VolumeTooLarge
from crucible.sandbox import processes
from crucible.sandbox.mounts import parse_mount
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import check_name

LARGEST_BYTES = 16 << 30
_CHUNK = 1 << 18
_ENDING = ".tar"
_EMPTY = bytes(1024)
_LIVELY = ("starting", "running", "paused", "stopping", "broken")


class Volume(NamedTuple):
    name: str
    size_bytes: int
    changed_at: float


class Volumes:
    def __init__(self, home: Path) -> None:
        self._directory = home / "volumes"

    def all(self) -> list[Volume]:
        names = sorted(path.name for path in self._directory.glob(f"*{_ENDING}"))
        return [self.find(name.removesuffix(_ENDING)) for name in names if not name.startswith(".")]

    def find(self, name: str) -> Volume:
        try:
            status = self._path(name).stat()
        except FileNotFoundError:
            raise VolumeMissing(name) from None
        return Volume(name, status.st_size, status.st_mtime)

    def create(self, name: str) -> Volume:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._path(name).open("xb") as file:
                file.write(_EMPTY)
        except FileExistsError:
            raise VolumeTaken(name) from None
        return self.find(name)

    def remove(self, name: str) -> None:
        self.find(name)
        self._path(name).unlink()

    def content(self, name: str) -> Iterator[bytes]:
        """The archive in pieces."""
        try:
            file = self._path(name).open("rb")
        except FileNotFoundError:
            raise VolumeMissing(name) from None
        with file:
            while data := file.read(_CHUNK):
                yield data

    async def save(
        self, name: str, pieces: AsyncIterator[bytes], *, most: int = LARGEST_BYTES
    ) -> None:
        """Whole or not at all: until the last byte is on the disk, the volume is what it was."""
        aside = self._directory / f".{name}{_ENDING}"
        size = 0
        try:
            with aside.open("wb") as file:
                async for data in pieces:
                    size += len(data)
                    if size > most:
                        raise VolumeTooLarge(name, most)
                    file.write(data)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            if not self._path(name).exists():
                raise VolumeMissing(name)  # it was removed meanwhile, and stays so
            aside.replace(self._path(name))
        finally:
            aside.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{check_name(name)}{_ENDING}"


def refuse_second_writer(name: str, records: Iterable[SandboxRecord], *, own_id: str = "") -> None:
    """Raises VolumeBusy if a sandbox that runs will write it back when it stops.

    Whoever asks has its own record written before: of two that start at once, each finds the other.
    """
    for record in records:
        if record.id == own_id or record.state not in _LIVELY or not _lives(record):
            continue
        mounts = map(parse_mount, record.spec.mounts)
        if any(mount.kind == "volume" and mount.source == name for mount in mounts):
            raise VolumeBusy(name, record.name)


def _lives(record: SandboxRecord) -> bool:
    return processes.is_running(record.pid, record.pid_started) or processes.is_running(
        record.holder_pid, record.holder_started
    )
