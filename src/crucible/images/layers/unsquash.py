"""Reads a squashfs 4.0 in which nothing is compressed, as the roots of our images are: its files by their paths.

Written here rather than left to unsquashfs because nothing need be unpacked for it, and an ordinary user sees every
owner. Nothing in the file is believed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Self

from crucible.images.layers.headers import Entry, Kind, Parts
from crucible.images.layers.limits import DEFAULT, LARGEST_ID, LONGEST_NAME, LONGEST_PATH

_MAGIC = 0x73717368
_VERSION = (4, 0)
_ABSENT = 0xFFFFFFFF
_NOT_COMPRESSED = 0x8000
_METADATA_BYTES = 8192
_BLOCK_NOT_COMPRESSED = 1 << 24
_BLOCK_BYTES = tuple(1 << power for power in range(12, 21))
_LISTING_EXTRA = 3
_CHUNK = 1 << 20

_SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
_HEAD = struct.Struct("<HHHHII")
_RUN = struct.Struct("<III")
_NAME = struct.Struct("<HhHH")
# A socket is nobody's once whoever listened is gone.
_KINDS = {
    1: Kind.DIRECTORY, 2: Kind.FILE, 3: Kind.SYMLINK, 4: Kind.DEVICE, 5: Kind.DEVICE, 6: Kind.FIFO, 7: Kind.DEVICE,
}  # fmt: skip
_EXTENDED = 7


class NotReadable(Exception):
    """It is no such filesystem, or a damaged one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inode:
    """`start` is where a file's bytes begin, or a directory's list; `blocks` are the lengths of a file's parts."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime_s: int
    start: int = 0
    offset: int = 0
    size: int = 0
    blocks: tuple[int, ...] = ()
    target: bytes = b""


class Squashed:
    """Such a filesystem in a file. Raises NotReadable, from any of its methods."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("rb", buffering=0)
        self._metadata: dict[int, tuple[bytes, int]] = {}
        try:
            head = _SUPERBLOCK.unpack(self._read(0, _SUPERBLOCK.size))
            if head[0] != _MAGIC or head[9:11] != _VERSION:
                raise NotReadable("it is no squashfs 4.0")
            self._block = head[3]
            if self._block not in _BLOCK_BYTES:
                raise NotReadable("its blocks have an odd size")
            self._root, self._inodes, self._directories = head[11], head[15], head[16]
            self._owners = self._read_owners(head[13], head[8])
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def entries(self) -> Iterator[tuple[Entry, Callable[[], Iterator[bytes]]]]:
        """Every file below the root, and what reads its bytes; a directory before what it holds.

        The second name of a file is a hard link to its first.
        """
        first: dict[int, Parts] = {}
        count = 0
        waiting: list[tuple[Parts, int]] = [((), self._root)]
        while waiting:
            parts, place = waiting.pop()
            count += 1
            if count > DEFAULT.entries or len(parts) > DEFAULT.depth:
                raise NotReadable("it has too many files")
            inode = self._inode(place)
            is_directory = inode.kind is Kind.DIRECTORY
            known = first.setdefault(place, parts)
            if known != parts and is_directory:
                raise NotReadable("a directory is in two places")
            if parts:
                yield _entry(inode, parts, known), partial(self._content, inode)
            if is_directory:
                listed = sorted(self._listed(inode), reverse=True)
                waiting += [((*parts, name), found) for name, found in listed]

    def _inode(self, place: int) -> _Inode:
        at = _Cursor(self, self._inodes + (place >> 16), place & 0xFFFF)
        number, mode, uid, gid, mtime_s, _ = _HEAD.unpack(at.take(_HEAD.size))
        is_extended = number > _EXTENDED
        kind = _KINDS.get(number - _EXTENDED if is_extended else number)
        if kind is None:
            raise NotReadable(f"it has a file of kind {number}")
        head = (kind, mode & 0o7777, self._owner(uid), self._owner(gid), mtime_s)
        match kind:
            case Kind.DIRECTORY:
                return _directory(at, head, is_extended=is_extended)
            case Kind.FILE:
                return self._regular(at, head, is_extended=is_extended)
            case Kind.SYMLINK:
                _, length = at.unpack("<II")
                if not 0 < length <= LONGEST_PATH:
                    raise NotReadable("a symbolic link leads nowhere")
                return _inode(head, target=at.take(length))
            case _:
                return _inode(head)

    def _regular(self, at: _Cursor, head: _Head, *, is_extended: bool) -> _Inode:
        attributes = _ABSENT
        if is_extended:
            start, size, _, _, fragment, _, attributes = at.unpack("<QQQIIII")
        else:
            start, fragment, _, size = at.unpack("<IIII")
        if fragment != _ABSENT or attributes != _ABSENT:
            raise NotReadable("it has fragments or attributes")
        count = -(-size // self._block)
        if size > DEFAULT.total_bytes:
            raise NotReadable("a file is too large")
        return _inode(head, start=start, size=size, blocks=at.unpack(f"<{count}I"))

    def _listed(self, directory: _Inode) -> Iterator[tuple[bytes, int]]:
        """The names in a directory, each with where its inode is."""
        at = _Cursor(self, self._directories + directory.start, directory.offset)
        left = directory.size - _LISTING_EXTRA
        while left > 0:
            count, block, _ = _RUN.unpack(at.take(_RUN.size))
            left -= _RUN.size
            for _ in range(count + 1):
                offset, _, _, length = _NAME.unpack(at.take(_NAME.size))
                name = at.take(length + 1) if length < LONGEST_NAME else b""
                left -= _NAME.size + len(name)
                if left < 0 or name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
                    raise NotReadable("a directory holds what has no name")
                yield name, block << 16 | offset

    def _content(self, inode: _Inode) -> Iterator[bytes]:
        at, left = inode.start, inode.size
        for word in inode.blocks:
            wanted = min(self._block, left)
            left -= wanted
            if word == 0:
                yield bytes(wanted)
                continue
            if word != wanted | _BLOCK_NOT_COMPRESSED:
                raise NotReadable("a file is compressed")
            yield self._read(at, wanted)
            at += wanted

    def _read_owners(self, table: int, count: int) -> tuple[int, ...]:
        (first,) = struct.unpack("<Q", self._read(table, 8)) if count else (0,)
        return _Cursor(self, first, 0).unpack(f"<{count}I")

    def _owner(self, index: int) -> int:
        if index >= len(self._owners) or self._owners[index] > LARGEST_ID:
            raise NotReadable("a file belongs to nobody")
        return self._owners[index]

    def metadata(self, start: int) -> tuple[bytes, int]:
        """The block that begins there, and where the next one does."""
        if start not in self._metadata:
            (head,) = struct.unpack("<H", self._read(start, 2))
            length = head & ~_NOT_COMPRESSED
            if not head & _NOT_COMPRESSED or not 0 < length <= _METADATA_BYTES:
                raise NotReadable("its lists are compressed")
            self._metadata[start] = self._read(start + 2, length), start + 2 + length
        return self._metadata[start]

    def _read(self, start: int, count: int) -> bytes:
        try:
            data = os.pread(self._file.fileno(), count, start)
        except (OSError, OverflowError) as error:
            raise NotReadable(f"it cannot be read: {error}") from None
        if len(data) != count:
            raise NotReadable("it ends too early")
        return data


_Head = tuple[Kind, int, int, int, int]


class _Cursor:
    """A place in the lists, which are cut into blocks anywhere."""

    def __init__(self, squashed: Squashed, start: int, offset: int) -> None:
        self._squashed = squashed
        self._start = start
        self._offset = offset

    def take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            block, following = self._squashed.metadata(self._start)
            piece = block[self._offset : self._offset + count - len(taken)]
            if not piece and self._offset != len(block):
                raise NotReadable("a list ends too early")
            taken += piece
            self._offset += len(piece)
            if self._offset == len(block):
                self._start, self._offset = following, 0
        return taken

    def unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))


def _directory(at: _Cursor, head: _Head, *, is_extended: bool) -> _Inode:
    if is_extended:
        _, size, start, _, _, offset, attributes = at.unpack("<IIIIHHI")
        if attributes != _ABSENT:
            raise NotReadable("it has attributes")
    else:
        start, _, size, offset, _ = at.unpack("<IIHHI")
    return _inode(head, start=start, offset=offset, size=size)


def _inode(
    head: _Head,
    *,
    start: int = 0,
    offset: int = 0,
    size: int = 0,
    blocks: tuple[int, ...] = (),
    target: bytes = b"",
) -> _Inode:
    kind, mode, uid, gid, mtime_s = head
    return _Inode(
        kind=kind,
        mode=mode,
        uid=uid,
        gid=gid,
        mtime_s=mtime_s,
        start=start,
        offset=offset,
        size=size,
        blocks=blocks,
        target=target,
    )


def _entry(inode: _Inode, parts: Parts, first: Parts) -> Entry:
    is_link = first != parts
    return Entry(
        parts=parts,
        kind=Kind.LINK if is_link else inode.kind,
        mode=inode.mode,
        uid=inode.uid,
        gid=inode.gid,
        mtime_s=inode.mtime_s,
        size=inode.size if inode.kind is Kind.FILE and not is_link else 0,
        target=inode.target,
        linked=first if is_link else (),
    )
