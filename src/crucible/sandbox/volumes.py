"""Named volumes: trees that sandboxes share one after the other, each kept as one archive under the state directory.

What a sandbox wrote is never unpacked on the host, only handed to the next sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from crucible.errors import VolumeMissing, VolumeTaken, VolumeTooLarge
from crucible.sandbox.spec import check_name

LARGEST_BYTES = 16 << 30
_CHUNK = 1 << 18
_ENDING = ".tar"
_EMPTY = bytes(1024)
_WRITER = ".writer"


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

    def create_missing(self, name: str) -> None:
        with contextlib.suppress(VolumeTaken):
            self.create(name)

    def remove(self, name: str) -> None:
        self.find(name)
        self._path(name).unlink()
        for ending in (_WRITER, _ENDING):
            self._beside(name, ending).unlink(missing_ok=True)

    def writer(self, name: str) -> str:
        """The id of the sandbox that last was its writer, and may still be; empty if there was none."""
        try:
            return self._beside(name, _WRITER).read_text()
        except FileNotFoundError:
            return ""

    def set_writer(self, name: str, sandbox_id: str) -> None:
        # The writer before it may have died while it was being kept.
        self._beside(name, _ENDING).unlink(missing_ok=True)
        aside = self._beside(name, f"{_WRITER}.new")
        aside.write_text(sandbox_id)
        aside.replace(self._beside(name, _WRITER))

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
        aside = self._beside(name, _ENDING)
        size = 0
        try:
            with aside.open("wb") as file:
                async for data in pieces:
                    size += len(data)
                    if size > most:
                        raise VolumeTooLarge(name, most)
                    _write(file, data)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            if not self._path(name).exists():
                raise VolumeMissing(name)  # it was removed meanwhile, and stays so
            _put(aside, self._path(name))
        finally:
            aside.unlink(missing_ok=True)

    def _beside(self, name: str, ending: str) -> Path:
        return self._directory / f".{check_name(name, 'volume')}{ending}"

    def _path(self, name: str) -> Path:
        return self._directory / f"{check_name(name, 'volume')}{_ENDING}"


class Unkept:
    """Which volumes a sandbox has newer files of than the volume itself: copied in, and not kept since.

    Its machine may have died, or what it has may have been too large. Unless somebody else has written the volume
    meanwhile, its own files are the ones to go on with.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "unkept.json"

    def add(self, volume: Volume) -> None:
        self._store({**self._load(), volume.name: [volume.size_bytes, volume.changed_at]})

    def drop(self, name: str) -> None:
        known = self._load()
        if known.pop(name, None) is not None:
            self._store(known)

    def has(self, volume: Volume) -> bool:
        return self._load().get(volume.name) == [volume.size_bytes, volume.changed_at]

    def _load(self) -> dict[str, list[float]]:
        try:
            known: dict[str, list[float]] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return known

    def _store(self, known: dict[str, list[float]]) -> None:
        aside = self._path.with_name(f".{self._path.name}")
        aside.write_text(json.dumps(known))
        aside.replace(self._path)


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _put(aside: Path, path: Path) -> None:
    aside.replace(path)
