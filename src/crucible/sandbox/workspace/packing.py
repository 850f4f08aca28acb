"""A file or tree of the host as a tar archive, made while it is sent: links kept as links, memory bounded."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from crucible.errors import PathRefused
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.beneath import Beneath
from crucible.sandbox.workspace.credentials import Withheld
from crucible.sandbox.workspace.ignore import NOTHING_IGNORED, Ignore
from crucible.sandbox.workspace.manifest import Manifest
from crucible.sandbox.workspace.names import shown
from crucible.sandbox.workspace.tarheader import BLOCK, END_OF_ARCHIVE, Header, encode_header

CHUNK_BYTES = 262_144
_TYPES: dict[bytes, EntryType] = {b"0": "file", b"2": "symlink", b"5": "directory"}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Modes = Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A host path that is not in the archive, or not as it should be, and why."""

    path: str
    why: str


class _Place(NamedTuple):
    """Where a file is opened: beneath a directory that is held, if there is one. `path` is for messages."""

    path: bytes
    base: bytes
    parent: int | None = None


class Packing:
    """An archive to be read once, in chunks. What could not be packed is in `skipped` afterwards.

    Whatever happens to the tree meanwhile, no link in it is followed.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str | None,
        ignore: Ignore,
        withheld: Withheld | None,
        modes: Modes | None,
        hashed: bool,
    ) -> None:
        self.skipped: list[Skipped] = []
        self.entries = 0
        self._ignore = ignore
        self._withheld = withheld
        self._mode = modes or _as_it_is
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
            name = name or path.rpartition(b"/")[2]
            yield from self._entry(_Place(path, path), name, status)
        else:
            yield from self._directory(path, name, status)
        self._buffer += END_OF_ARCHIVE
        yield bytes(self._buffer)

    def _directory(
        self, path: bytes, name: bytes | None, status: os.stat_result
    ) -> Iterator[bytes]:
        with Beneath(Path(os.fsdecode(path))) as tree:
            if not os.path.samestat(os.fstat(tree.directory(())), status):
                raise PathRefused(f"{shown(path)} was replaced while it was packed")
            if name is not None:
                yield from self._entry(_Place(path, path), name, status)
            yield from self._children(tree, path, b"" if name is None else name + b"/")

    def _children(self, tree: Beneath, top: bytes, prefix: bytes) -> Iterator[bytes]:
        """Everything in the tree, a directory before what it holds, without a call per level."""
        waiting: list[tuple[bytes, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            inner: list[tuple[bytes, ...]] = []
            for place, status in self._scan(tree, top, parts):
                name = b"/".join((*parts, place.base))
                is_directory = stat.S_ISDIR(status.st_mode)
                if self._stays(name, is_directory=is_directory):
                    continue
                yield from self._entry(place, prefix + name, status)
                if is_directory:
                    inner.append((*parts, place.base))
            waiting.extend(reversed(inner))

    def _stays(self, name: bytes, *, is_directory: bool) -> bool:
        if self._ignore.covers(name, is_directory=is_directory):
            return True
        return self._withheld is not None and self._withheld.covers(name, is_directory=is_directory)

    def _scan(
        self, tree: Beneath, top: bytes, parts: tuple[bytes, ...]
    ) -> Iterator[tuple[_Place, os.stat_result]]:
        directory = b"/".join((top.rstrip(b"/"), *parts))
        try:
            held = tree.directory(parts)
            with os.scandir(held) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except PathRefused:
            self._skip(directory, "it was replaced while it was packed")
            return
        except OSError as error:
            self._skip(directory, error.strerror or "it cannot be listed")
            return
        for entry in entries:
            base = os.fsencode(entry.name)
            place = _Place(directory + b"/" + base, base, held)
            try:
                yield place, entry.stat(follow_symlinks=False)
            except OSError as error:
                self._skip(place.path, error.strerror or "it cannot be examined")

    def _entry(self, place: _Place, name: bytes, status: os.stat_result) -> Iterator[bytes]:
        mode = status.st_mode
        if stat.S_ISREG(mode):
            yield from self._file(place, name, status)
        elif stat.S_ISDIR(mode):
            mtime = int(status.st_mtime)
            self._add(Header(name=name + b"/", type=b"5", mode=self._mode(mode), mtime=mtime))
        elif stat.S_ISLNK(mode):
            self._symlink(place, name, status)
        else:
            self._skip(place.path, "it is a socket, a pipe or a device")
        if len(self._buffer) >= CHUNK_BYTES:
            yield self._flush()

    def _symlink(self, place: _Place, name: bytes, status: os.stat_result) -> None:
        try:
            target = os.readlink(place.base, dir_fd=place.parent)
        except OSError as error:
            self._skip(place.path, error.strerror or "it cannot be read")
            return
        self._add(
            Header(name=name, type=b"2", mode=0o777, mtime=int(status.st_mtime), target=target)
        )

    def _file(self, place: _Place, name: bytes, status: os.stat_result) -> Iterator[bytes]:
        identity = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and identity in self._linked:
            self._hard_link(name, self._linked[identity], status.st_mode)
            return
        try:
            descriptor = os.open(place.base, _OPEN, dir_fd=place.parent)
        except OSError as error:
            self._skip(place.path, error.strerror or "it cannot be opened")
            return
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                self._skip(place.path, "it was replaced while it was packed")
                return
            if opened.st_nlink > 1:
                self._linked[identity] = name
            mtime, size = int(opened.st_mtime), opened.st_size
            mode = self._mode(opened.st_mode)
            header = Header(name=name, type=b"0", mode=mode, mtime=mtime, size=size)
            digest = hashlib.sha256() if self._is_hashed else None
            self._add(header)
            yield from self._content(descriptor, place.path, size, digest)
            if digest is not None:
                self._note(header, sha256=digest.digest())
        finally:
            os.close(descriptor)

    def _hard_link(self, name: bytes, first: bytes, mode: int) -> None:
        self._add(Header(name=name, type=b"1", mode=self._mode(mode), target=first))
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
    withheld: Withheld | None = None,
    modes: Modes | None = None,
    hashed: bool = False,
) -> Packing:
    """The archive of a file or tree.

    With `name` it has one topmost entry of that name. Without it a directory's content comes without the directory
    itself, and a file under its own name. Owners are not kept: the host's mean nothing inside. `hashed` makes the
    baseline on the way (`manifest`), far sooner than a guest could tell it. `modes` gives each entry another mode.
    """
    return Packing(path, name=name, ignore=ignore, withheld=withheld, modes=modes, hashed=hashed)


def _as_it_is(mode: int) -> int:
    return mode


def entry_name(name: bytes) -> bytes:
    """A member's name as a manifest has it: `./a/` is `a`."""
    return b"/".join(part for part in name.split(b"/") if part not in (b"", b"."))
