"""squashfs's metadata: bytes in blocks of 8 KiB, each behind two bytes with its length. Ours are never compressed."""

from __future__ import annotations

import struct
from typing import IO

BLOCK = 8192
_NOT_COMPRESSED = 0x8000
_HEADED = BLOCK + 2


class Metadata:
    """Grows by `append`; a place in it is known at once, because no block shrinks when it is written."""

    def __init__(self) -> None:
        self.data = bytearray()

    def __len__(self) -> int:
        return len(self.data)

    def append(self, data: bytes) -> int:
        """The position of what was added."""
        position = len(self.data)
        self.data += data
        return position

    def write(self, file: IO[bytes]) -> list[int]:
        """Where each block begins in the file."""
        starts = []
        view = memoryview(self.data)
        for start in range(0, len(view), BLOCK):
            block = view[start : start + BLOCK]
            starts.append(file.tell())
            file.write(struct.pack("<H", len(block) | _NOT_COMPRESSED))
            file.write(block)
        return starts


def block_of(position: int) -> int:
    """Where the block of a position begins, from the table's own beginning."""
    return position // BLOCK * _HEADED


def offset_of(position: int) -> int:
    return position % BLOCK


def reference(position: int) -> int:
    """A position as one number, the way that inodes and attributes are named."""
    return block_of(position) << 16 | offset_of(position)


def write_indexed(file: IO[bytes], table: Metadata) -> int:
    """Writes a table and behind it the list of where its blocks begin; tells where the list does."""
    starts = table.write(file)
    begin = file.tell()
    file.write(struct.pack(f"<{len(starts)}Q", *starts))
    return begin
