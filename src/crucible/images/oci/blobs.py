"""Blobs by their digest, on disk. One is there whole and verified, or there is only its `.part`.

The part is its own lock: whoever holds it may write, and the rename that finishes it tells the others. So ten
processes that want the same blob fetch it once, and the death of one leaves what it had for the next.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from crucible.errors import DigestMismatch
from crucible.images.oci.digests import digest_of, digest_of_file, hasher
from crucible.images.oci.files import disk_errors, sync_directory

if TYPE_CHECKING:
    from hashlib import _Hash

_PART = ".part"
_CHUNK_BYTES = 1 << 20
_POLL_S = 0.05


class BlobMissing(Exception):
    """There is no such blob, or what was under its name was damaged."""


class SizeWrong(Exception):
    """A manifest gives a blob a size that it does not have."""


class Blobs:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, digest: str) -> Path:
        algorithm, _, digits = digest.partition(":")
        return self.directory / algorithm / digits

    def has(self, digest: str, size: int) -> bool:
        """Whether it is there with that size. A damaged file is removed, to be fetched again.

        Raises SizeWrong when the blob is whole and the size is the lie.
        """
        path = self.path(digest)
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            return False
        if found == size:
            return True
        if self.verify(digest):
            raise SizeWrong(f"{digest} has {found} bytes, not {size}")
        path.unlink(missing_ok=True)
        return False

    def read(self, digest: str, limit: int) -> bytes:
        """A small blob, compared with its digest. Raises BlobMissing."""
        try:
            with self.path(digest).open("rb") as stream:
                data = stream.read(limit + 1)
        except FileNotFoundError:
            raise BlobMissing(digest) from None
        if len(data) > limit:
            raise BlobMissing(digest)
        if digest_of(data, digest) != digest:
            self.path(digest).unlink(missing_ok=True)
            raise BlobMissing(digest)
        return data

    def verify(self, digest: str) -> bool:
        """Reads every byte."""
        try:
            return digest_of_file(self.path(digest), digest) == digest
        except FileNotFoundError:
            return False

    def add(self, data: bytes, digest: str = "") -> str:
        """Bytes at hand. With a digest they must have it."""
        found = digest_of(data, digest or "sha256:")
        if digest and digest != found:
            raise DigestMismatch("What was to be stored", digest, found)
        if not self.has(found, len(data)):
            with self.writing(found) as part:
                if part is not None:
                    part.restart()
                    part.write(data)
                    part.finish()
        return found

    def add_stream(self, chunks: Iterable[bytes], digest: str) -> None:
        """Bytes as they come, which must turn out to have that digest."""
        with self.writing(digest) as part:
            if part is None:
                return
            part.restart()
            for chunk in chunks:
                part.write(chunk)
            part.finish()

    @contextmanager
    def writing(
        self, digest: str, on_wait: Callable[[], None] = lambda: None
    ) -> Iterator[Part | None]:
        """The one who may write this blob just now; None when it is there (perhaps by now)."""
        path = self.path(digest)
        with disk_errors(path):
            stream = _locked_part(path, on_wait)
            if stream is None:
                yield None
                return
            with stream:
                yield Part(path, digest, stream)

    def all(self) -> Iterator[Path]:
        """Every finished blob and every part."""
        for algorithm in sorted(self.directory.glob("*")):
            yield from sorted(algorithm.iterdir())


class Part:
    """A blob that is being written. What an earlier writer left is in it already and counts."""

    def __init__(self, path: Path, digest: str, stream: IO[bytes]) -> None:
        self._path = path
        self._digest = digest
        self._stream = stream
        self._hash: _Hash = hasher(digest)
        while chunk := stream.read(_CHUNK_BYTES):
            self._hash.update(chunk)
        self.size = stream.tell()

    def restart(self) -> None:
        self._stream.seek(0)
        self._stream.truncate()
        self._hash, self.size = hasher(self._digest), 0

    def write(self, chunk: bytes) -> None:
        self._stream.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    @property
    def digest(self) -> str:
        """Of what is in it now."""
        return f"{self._digest.partition(':')[0]}:{self._hash.hexdigest()}"

    def finish(self) -> None:
        """Makes it a blob. Raises DigestMismatch, and then nothing is left of it."""
        found = self.digest
        if found != self._digest:
            self.restart()
            raise DigestMismatch("A blob", self._digest, found)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        _part_of(self._path).rename(self._path)
        sync_directory(self._path.parent)


def is_part(path: Path) -> bool:
    return path.name.endswith(_PART)


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + _PART)


def _locked_part(path: Path, on_wait: Callable[[], None]) -> IO[bytes] | None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part_of(path)
    while not path.exists():
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        stream = os.fdopen(descriptor, "r+b")
        try:
            _lock(descriptor, on_wait)
            if _is_still(descriptor, part):
                return stream
        except BaseException:
            stream.close()
            raise
        stream.close()  # another has finished or removed it meanwhile
    return None


def _lock(descriptor: int, on_wait: Callable[[], None]) -> None:
    """By asking again and again, so that `on_wait` can end the waiting by raising."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            time.sleep(_POLL_S)
        else:
            return


def _is_still(descriptor: int, part: Path) -> bool:
    try:
        named = part.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
