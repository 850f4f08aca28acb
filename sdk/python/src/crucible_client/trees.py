"""Directories of this machine as archives, both ways. What comes out of a sandbox is hostile until it is unpacked."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import IO, Protocol

from crucible_client.errors import PathRefused

PIECE = 1 << 18
_IN_MEMORY = 8 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def scratch() -> IO[bytes]:
    """For what may be larger than memory; gone when it is closed."""
    return tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)


def packed(directory: Path) -> IO[bytes]:
    """A tar of all that is in a directory, owned by nobody in particular: the sandbox decides."""
    file = scratch()
    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(directory.iterdir()):
                tar.add(path, path.name, filter=_nobodys)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def unpack(file: IO[bytes], directory: Path) -> None:
    """Raises PathRefused for what would leave the directory, and for devices."""
    file.seek(0)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            tar.extractall(directory, filter="data")
    except (tarfile.TarError, OSError, ValueError) as error:
        raise PathRefused(f"The sandbox's directory cannot be unpacked: {error}") from None


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Only what a directory is copied for: files, directories and symbolic links."""
    if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
