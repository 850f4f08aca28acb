"""Guest memory as descriptors: shared while a template is made, sealed when machines start from it.

A sealed memfd can be mapped privately by any number of VMMs and altered by none, not even by one
that was taken over. QEMU 7.2 insists on opening memory read-write, so a file on disk would be at
its mercy.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from crucible.errors import HostDiskFull, TemplateDamaged

_PAGE = 4096
CHUNK = 1 << 20
_ZEROES = bytes(CHUNK)
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(size: int) -> int:
    descriptor = os.memfd_create("crucible-ram", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    return descriptor


def seal(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)


def fill(descriptor: int, path: Path, size: int) -> None:
    """Copies the data of a saved memory into an empty memfd; holes stay holes."""
    with path.open("rb") as source:
        if os.fstat(source.fileno()).st_size != size:
            raise TemplateDamaged(f"{path.name} has not the size it should have")
        for start, end in _data_ranges(source.fileno(), size):
            os.lseek(descriptor, start, os.SEEK_SET)
            while start < end:
                count = os.sendfile(descriptor, source.fileno(), start, end - start)
                if count == 0:
                    raise TemplateDamaged(f"{path.name} was cut short")
                start += count


def save(descriptor: int, path: Path) -> None:
    """Writes a memory to a sparse file; pages of zeroes become holes."""
    size = os.fstat(descriptor).st_size
    try:
        with path.open("xb", buffering=0) as target:
            target.truncate(size)
            for start, end in _data_ranges(descriptor, size):
                for offset in range(start, end, CHUNK):
                    chunk = os.pread(descriptor, min(CHUNK, end - offset), offset)
                    _write_sparse(target.fileno(), chunk, offset)
            os.fsync(target.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostDiskFull(str(path)) from error
        raise


def chunks_with_data(descriptor: int, size: int) -> Iterator[int]:
    """The offsets of all whole chunks, aligned to their size, in which the file is not a hole."""
    last = -1
    for start, end in _data_ranges(descriptor, size):
        for number in range(max(start // CHUNK, last + 1), -(-end // CHUNK)):
            yield number * CHUNK
            last = number


def is_zero(chunk: bytes) -> bool:
    return chunk == _ZEROES[: len(chunk)]


def _write_sparse(target: int, chunk: bytes, offset: int) -> None:
    if is_zero(chunk):
        return
    view = memoryview(chunk)
    run = 0
    for position in range(0, len(chunk) + _PAGE, _PAGE):
        page = view[position : position + _PAGE]
        if len(page) and page != _ZEROES[: len(page)]:
            continue
        if position > run:
            os.pwrite(target, view[run:position], offset + run)
        run = position + _PAGE


def _data_ranges(descriptor: int, size: int) -> list[tuple[int, int]]:
    ranges = []
    position = 0
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        ranges.append((start, position))
    return ranges
