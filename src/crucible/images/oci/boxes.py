"""What holds the files of an image on disk: a directory, or a tar. Names in, bytes out, nothing unpacked."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from crucible.errors import ImageMalformed, ImageTooLarge, ImageUnsupported, PathRefused
from crucible.images.oci.files import disk_errors
from crucible.images.oci.tar_index import BadTar, TarIndex, index_tar, normal_path

_CHUNK_BYTES = 1 << 20
_OTHERS = ((b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ", "xz"))


class Box(Protocol):
    """`name` is a relative path with slashes. What is not there, or is no plain file, has no size."""

    def size(self, name: str) -> int | None: ...

    def chunks(self, name: str) -> Iterator[bytes]: ...


def read(box: Box, name: str, limit: int) -> bytes | None:
    """A small file; None when it is not there, or larger."""
    size = box.size(name)
    if size is None or size > limit:
        return None
    return b"".join(box.chunks(name))


class Folder:
    """A directory. What a link leads out of it is not there, and only plain files are opened."""

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()

    def size(self, name: str) -> int | None:
        path = self._inside(name)
        if path is None:
            return None
        try:
            status = path.lstat()
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def chunks(self, name: str) -> Iterator[bytes]:
        path = self._inside(name)
        if path is None:
            return
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk

    def _inside(self, name: str) -> Path | None:
        normal = normal_path(name)
        if normal is None or "\0" in normal:
            return None
        try:
            path = (self._root / normal).resolve()
        except (OSError, RuntimeError):  # links in a circle
            return None
        return path if path.is_relative_to(self._root) else None


class Tar:
    def __init__(self, stream: IO[bytes], index: TarIndex) -> None:
        self._stream = stream
        self._index = index

    def size(self, name: str) -> int | None:
        member = self._index.find(name)
        return None if member is None else member.size

    def chunks(self, name: str) -> Iterator[bytes]:
        member = self._index.find(name)
        if member is None:
            return
        left = member.size
        self._stream.seek(member.offset)
        while left and (chunk := self._stream.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


@contextmanager
def open_box(path: Path, scratch: Path, limit_bytes: int) -> Iterator[Box]:
    """A directory, a tar or a gzipped tar. The latter is unpacked into `scratch` first, up to the limit."""
    if path.is_dir():
        yield Folder(path)
        return
    try:
        # A pipe would wait for a writer.
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise PathRefused(f"{path} cannot be read: {error.strerror}") from None
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise PathRefused(f"{path} is neither a file nor a directory")
        with _plain(stream, path, scratch, limit_bytes) as plain:
            try:
                index = index_tar(plain)
            except BadTar as error:
                raise ImageMalformed(str(path), f"as a tar {error}") from None
            yield Tar(plain, index)


@contextmanager
def _plain(stream: IO[bytes], path: Path, scratch: Path, limit_bytes: int) -> Iterator[IO[bytes]]:
    head = stream.read(6)
    stream.seek(0)
    for magic, name in _OTHERS:
        if head.startswith(magic):
            raise ImageUnsupported(
                str(path), f"it is compressed with {name}", hint="Decompress the file first"
            )
    if not head.startswith(b"\x1f\x8b"):
        yield stream
        return
    scratch.mkdir(parents=True, exist_ok=True)
    with disk_errors(scratch), tempfile.TemporaryFile(dir=scratch) as unpacked:
        try:
            with gzip.open(stream) as packed:
                while chunk := packed.read(_CHUNK_BYTES):
                    if unpacked.tell() + len(chunk) > limit_bytes:
                        raise ImageTooLarge(
                            str(path), "The archive", unpacked.tell() + len(chunk), limit_bytes
                        )
                    unpacked.write(chunk)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ImageMalformed(str(path), "its compression is broken") from None
        yield unpacked
