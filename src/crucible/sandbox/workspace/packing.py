"""A file or tree of the host as a tar archive, made while it is sent: links kept as links, memory bounded."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from crucible.errors import PathRefused
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.ignore import NOTHING_IGNORED, Ignore
from crucible.sandbox.workspace.manifest import Manifest
from crucible.sandbox.workspace.names import shown
from crucible.sandbox.workspace.tarheader import BLOCK, END_OF_ARCHIVE, Header, encode_header

CHUNK_BYTES = 262_144
_TYPES: dict[bytes, EntryType] = {b"0": "file", b"2": "symlink", b"5": "directory"}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A host path that is not in the archive, or not as it should be, and why."""

    path: str
    why: str


class Packing:
    """An archive to be read once, in chunks. What could not be packed is in `skipped` afterwards."""

    def __init__(self, path: Path, *, name: str | None, ignore: Ignore, hashed: bool) -> None:
        self.skipped: list[Skipped] = []
        self.entries = 0
        self._ignore = ignore
        self._is_hashed = hashed
        self._packed: dict[bytes, Entry] = {}
        self._linked: dict[tuple[int, int], bytes] = {}
        self._buffer = bytearray()
        self._chunks = self._pack(os.fsencode(path), None if name is None else os.fsencode(name))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def manifest(self) -> Manifest:
        """What was packed, as a TREE with hashes would tell it. Only with `hashed`, and after the last chunk."""
        return Manifest(entries=self._packed)

    def _pack(self, path: bytes, name: bytes | None) -> Iterator[bytes]:
        try:
            status = os.lstat(path)
        except OSError as error:
            raise PathRefused(f"{shown(path)} cannot be read: {error.strerror}") from None
        if not stat.S_ISDIR(status.st_mode):
            yield from self._entry(path, name or path.rpartition(b"/")[2], status)
        elif name is None:
            yield from self._children(path, b"")
        else:
            yield from self._entry(path, name, status)
            yield from self._children(path, name + b"/")
        self._buffer += END_OF_ARCHIVE
        yield bytes(self._buffer)

    def _children(self, top: bytes, prefix: bytes) -> Iterator[bytes]:
        """Everything in `top`, a directory before what it holds, without a call per level."""
        waiting = [(top, prefix, b"")]
        while waiting:
            directory, prefix, relative = waiting.pop()
            inner: list[tuple[bytes, bytes, bytes]] = []
            for path, base, status in self._scan(directory):
                is_directory = stat.S_ISDIR(status.st_mode)
                if self._ignore.covers(relative + base, is_directory=is_directory):
                    continue
                yield from self._entry(path, prefix + base, status)
                if is_directory:
                    inner.append((path, prefix + base + b"/", relative + base + b"/"))
            waiting.extend(reversed(inner))

    def _scan(self, directory: bytes) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(directory, error.strerror or "it cannot be listed")
            return
        for entry in entries:
            try:
                yield entry.path, entry.name, entry.stat(follow_symlinks=False)
            except OSError as error:
                self._skip(entry.path, error.strerror or "it cannot be examined")

    def _entry(self, path: bytes, name: bytes, status: os.stat_result) -> Iterator[bytes]:
        mode = status.st_mode
        if stat.S_ISREG(mode):
            yield from self._file(path, name, status)
        elif stat.S_ISDIR(mode):
            self._add(Header(name=name + b"/", type=b"5", mode=mode, mtime=int(status.st_mtime)))
        elif stat.S_ISLNK(mode):
            self._symlink(path, name, status)
        else:
            self._skip(path, "it is a socket, a pipe or a device")
        if len(self._buffer) >= CHUNK_BYTES:
            yield self._flush()

    def _symlink(self, path: bytes, name: bytes, status: os.stat_result) -> None:
        try:
            target = os.readlink(path)  # noqa: PTH115 - it is bytes
        except OSError as error:
            self._skip(path, error.strerror or "it cannot be read")
            return
        self._add(
            Header(name=name, type=b"2", mode=0o777, mtime=int(status.st_mtime), target=target)
        )

    def _file(self, path: bytes, name: bytes, status: os.stat_result) -> Iterator[bytes]:
        identity = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and identity in self._linked:
            self._hard_link(name, self._linked[identity], status.st_mode)
            return
        try:
            descriptor = os.open(path, _OPEN)
        except OSError as error:
            self._skip(path, error.strerror or "it cannot be opened")
            return
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                self._skip(path, "it was replaced while it was packed")
                return
            if opened.st_nlink > 1:
                self._linked[identity] = name
            mtime, size = int(opened.st_mtime), opened.st_size
            header = Header(name=name, type=b"0", mode=opened.st_mode, mtime=mtime, size=size)
            digest = hashlib.sha256() if self._is_hashed else None
            self._add(header)
            yield from self._content(descriptor, path, size, digest)
            if digest is not None:
                self._note(header, sha256=digest.digest())
        finally:
            os.close(descriptor)

    def _hard_link(self, name: bytes, first: bytes, mode: int) -> None:
        self._add(Header(name=name, type=b"1", mode=mode, target=first))
        if self._is_hashed:
            same = self._packed[entry_name(first)]
            self._packed[entry_name(name)] = replace(same, name=entry_name(name))

    def _content(
        self, descriptor: int, path: bytes, size: int, digest: hashlib._Hash | None
    ) -> Iterator[bytes]:
        """Exactly `size` bytes and the padding: what the header promised, whatever the file does meanwhile."""
        left = size
        while left:
            data = os.read(descriptor, min(left, CHUNK_BYTES))
            if not data:
                self._skip(path, f"it shrank while it was read: its last {left} bytes are zeros")
                yield from self._zeros(left, digest)
                break
            left -= len(data)
            if digest is not None:
                digest.update(data)
            if self._buffer or len(data) < CHUNK_BYTES:
                self._buffer += data
                if len(self._buffer) >= CHUNK_BYTES:
                    yield self._flush()
            else:
                yield data
        self._buffer += bytes(-size % BLOCK)

    def _zeros(self, count: int, digest: hashlib._Hash | None) -> Iterator[bytes]:
        while count:
            piece = bytes(min(count, CHUNK_BYTES))
            count -= len(piece)
            self._buffer += piece
            if digest is not None:
                digest.update(piece)
            yield self._flush()

    def _add(self, header: Header) -> None:
        self.entries += 1
        self._buffer += encode_header(header)
        if self._is_hashed and header.type in (b"2", b"5"):
            self._note(header, sha256=b"")

    def _note(self, header: Header, *, sha256: bytes) -> None:
        name = entry_name(header.name)
        if not name:
            return
        self._packed[name] = Entry(
            name=name,
            type=_TYPES[header.type],
            mode=header.mode & 0o7777,
            size=header.size,
            mtime_ns=header.mtime * 10**9,
            uid=0,
            gid=0,
            target=header.target,
            sha256=sha256,
        )

    def _flush(self) -> bytes:
        chunk = bytes(self._buffer)
        self._buffer.clear()
        return chunk

    def _skip(self, path: bytes, why: str) -> None:
        self.skipped.append(Skipped(path=os.fsdecode(path), why=why))


def pack_tree(
    path: Path,
    *,
    name: str | None = None,
    ignore: Ignore = NOTHING_IGNORED,
    hashed: bool = False,
) -> Packing:
    """The archive of a file or tree.

    With `name` it has one topmost entry of that name. Without it a directory's content comes without the directory
    itself, and a file under its own name. Owners are not kept: the host's mean nothing inside. `hashed` makes the
    baseline on the way (`manifest`), far sooner than a guest could tell it.
    """
    return Packing(path, name=name, ignore=ignore, hashed=hashed)


def entry_name(name: bytes) -> bytes:
    """A member's name as a manifest has it: `./a/` is `a`."""
    return b"/".join(part for part in name.split(b"/") if part not in (b"", b"."))
