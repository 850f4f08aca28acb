"""Writes a tree as a squashfs 4.0 behind the files' bytes: inodes, directories, owners, attributes, superblock.

Written here rather than by mksquashfs because nothing need be unpacked for it, an ordinary user can give files to
anybody, and the same layers give the same bytes. Nothing is compressed: reading is then a copy, which is what counts
where the guest's processor is emulated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

from crucible.errors import ImageBomb
from crucible.images.layers import content
from crucible.images.layers.attributes import NONE, AttributeTable
from crucible.images.layers.headers import Kind
from crucible.images.layers.metadata import BLOCK as METADATA_BLOCK
from crucible.images.layers.metadata import (
    Metadata,
    block_of,
    offset_of,
    reference,
    write_indexed,
)
from crucible.images.layers.tree import Directory, Node, Tree

SUPERBLOCK_BYTES = 96
_MAGIC = 0x73717368
_ZLIB = 1  # a name the kernel knows; nothing is packed with it
_FLAGS = 0x1 | 0x2 | 0x8 | 0x800 | 0x10 | 0x100  # nothing compressed, no fragments
_NO_ATTRIBUTES = 0x200
_NOWHERE = (1 << 64) - 1
_NO_FRAGMENT = 0xFFFFFFFF
_BLOCK_NOT_COMPRESSED = 1 << 24
_PADDING = 4096
_SMALL = 1 << 32
_MOST_OWNERS = 1 << 16
_MOST_IN_RUN = 256
_LARGEST_DELTA = 32767
_LISTING_EXTRA = 3  # the kernel counts `.` and `..` in a directory's size
_SMALL_LISTING = (1 << 16) - 1 - _LISTING_EXTRA

_BASIC = {Kind.DIRECTORY: 1, Kind.FILE: 2, Kind.SYMLINK: 3, Kind.FIFO: 6}
_EXTENDED = 7


def write_filesystem(tree: Tree, file: IO[bytes], *, end: int) -> None:
    """`end` is where the files' bytes end in `file`; their beginning is for the superblock."""
    _Writer(tree, file, end).write()


class _Writer:
    def __init__(self, tree: Tree, file: IO[bytes], end: int) -> None:
        self._root = tree.root
        self._file = file
        self._end = end
        self._inodes = Metadata()
        self._directories = Metadata()
        self._attributes = AttributeTable()
        self._owners: dict[int, int] = {}
        self._count = 0
        self._newest = 0

    def write(self) -> None:
        self._number_all()
        self._write_inodes(self._root, parent=self._count + 1)
        file = self._file
        file.seek(self._end)
        inodes = file.tell()
        self._inodes.write(file)
        directories = file.tell()
        self._directories.write(file)
        owners = Metadata()
        owners.append(struct.pack(f"<{len(self._owners)}I", *self._owners))
        owner_table = write_indexed(file, owners)
        attribute_table = self._attributes.write(file) if self._attributes else _NOWHERE
        used = file.tell()
        file.write(bytes(-used % _PADDING))
        file.seek(0)
        file.write(
            struct.pack(
                "<IIIIIHHHHHHQQQQQQQQ",
                _MAGIC,
                self._count,
                self._newest,
                content.BLOCK,
                0,  # fragments
                _ZLIB,
                content.BLOCK.bit_length() - 1,
                _FLAGS | (0 if self._attributes else _NO_ATTRIBUTES),
                len(self._owners),
                4,
                0,
                reference(self._root.position),
                used,
                owner_table,
                attribute_table,
                inodes,
                directories,
                _NOWHERE,  # fragments
                _NOWHERE,  # a table for network filesystems, which nobody reads
            )
        )

    def _number_all(self) -> None:
        """Numbers first, because a directory's inode names its parent's. Neighbours get near numbers."""
        self._number(self._root)
        waiting = [self._root]
        while waiting:
            directory = waiting.pop()
            for _, node in sorted(directory.children.items()):
                self._number(node)
                if isinstance(node, Directory):
                    waiting.append(node)

    def _number(self, node: Node) -> None:
        node.links += 1
        if not node.number:
            self._count += 1
            node.number = self._count
            self._newest = max(self._newest, node.mtime_s)

    def _write_inodes(self, directory: Directory, parent: int) -> None:
        """What is inside first: a directory's list tells where each inode lies."""
        listed = sorted(directory.children.items())
        for _, node in listed:
            if isinstance(node, Directory):
                self._write_inodes(node, parent=directory.number)
        for _, node in listed:
            if not isinstance(node, Directory) and node.position < 0:
                node.position = self._inodes.append(self._file_inode(node))
        directory.position = self._inodes.append(self._directory_inode(directory, listed, parent))

    def _common(self, node: Node, kind: int) -> bytes:
        return struct.pack(
            "<HHHHII",
            kind,
            node.mode,
            self._owner(node.uid),
            self._owner(node.gid),
            node.mtime_s,
            node.number,
        )

    def _owner(self, number: int) -> int:
        index = self._owners.setdefault(number, len(self._owners))
        if index >= _MOST_OWNERS - 1:
            raise ImageBomb("The files of the image belong to more than 65535 different owners")
        return index

    def _file_inode(self, node: Node) -> bytes:
        attributes = self._attributes.number_of(node.attributes)
        basic = _BASIC[node.kind]
        if node.kind is Kind.FILE:
            return self._regular_inode(node, attributes)
        kind = basic if attributes == NONE else basic + _EXTENDED
        inode = self._common(node, kind) + struct.pack("<I", node.links)
        if node.kind is Kind.SYMLINK:
            inode += struct.pack("<I", len(node.target)) + node.target
        return inode if attributes == NONE else inode + struct.pack("<I", attributes)

    def _regular_inode(self, node: Node, attributes: int) -> bytes:
        stored = node.content or content.Content(start=0, size=0)
        start = stored.start if stored.stored_bytes else 0
        is_plain = attributes == NONE and node.links == 1 and not stored.holes
        if is_plain and max(start, stored.size) < _SMALL:
            body = struct.pack("<IIII", start, _NO_FRAGMENT, 0, stored.size)
            inode = self._common(node, _BASIC[Kind.FILE]) + body
        else:
            holes = len(stored.holes) * content.BLOCK
            body = struct.pack(
                "<QQQIIII", start, stored.size, holes, node.links, _NO_FRAGMENT, 0, attributes
            )
            inode = self._common(node, _BASIC[Kind.FILE] + _EXTENDED) + body
        sizes = [size | _BLOCK_NOT_COMPRESSED if size else 0 for size in stored.block_sizes()]
        return inode + struct.pack(f"<{len(sizes)}I", *sizes)

    def _directory_inode(
        self, directory: Directory, listed: list[tuple[bytes, Node]], parent: int
    ) -> bytes:
        start = len(self._directories)
        index = self._write_listing(listed)
        size = len(self._directories) - start
        links = 2 + sum(isinstance(node, Directory) for _, node in listed)
        attributes = self._attributes.number_of(directory.attributes)
        if size <= _SMALL_LISTING and attributes == NONE and not index:
            return self._common(directory, _BASIC[Kind.DIRECTORY]) + struct.pack(
                "<IIHHI", block_of(start), links, size + _LISTING_EXTRA, offset_of(start), parent
            )
        inode = self._common(directory, _BASIC[Kind.DIRECTORY] + _EXTENDED) + struct.pack(
            "<IIIIHHI",
            links,
            size + _LISTING_EXTRA,
            block_of(start),
            parent,
            len(index),
            offset_of(start),
            attributes,
        )
        entries = [
            struct.pack("<III", at - start, block_of(at), len(name) - 1) + name
            for at, name in index
        ]
        return inode + b"".join(entries)

    def _write_listing(self, listed: list[tuple[bytes, Node]]) -> list[tuple[int, bytes]]:
        """Tells which run of entries is the first in each new block, so that the kernel can skip to it."""
        index: list[tuple[int, bytes]] = []
        block = len(self._directories) // METADATA_BLOCK
        for run in _runs(listed):
            _, first = run[0]
            header = struct.pack("<III", len(run) - 1, block_of(first.position), first.number)
            position = self._directories.append(header)
            if position // METADATA_BLOCK != block:
                block = position // METADATA_BLOCK
                index.append((position, run[0][0]))
            for name, node in run:
                self._directories.append(
                    struct.pack(
                        "<HhHH",
                        offset_of(node.position),
                        node.number - first.number,
                        _BASIC[node.kind],
                        len(name) - 1,
                    )
                    + name
                )
        return index


def _runs(listed: list[tuple[bytes, Node]]) -> Iterator[list[tuple[bytes, Node]]]:
    """Neighbours whose inodes lie in one block and have near numbers share a header."""
    run: list[tuple[bytes, Node]] = []
    for name, node in listed:
        if run:
            first = run[0][1]
            is_near = abs(node.number - first.number) <= _LARGEST_DELTA
            is_same = block_of(node.position) == block_of(first.position)
            if len(run) == _MOST_IN_RUN or not is_near or not is_same:
                yield run
                run = []
        run.append((name, node))
    if run:
        yield run
