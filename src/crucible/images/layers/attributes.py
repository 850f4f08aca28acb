"""The extended attributes of a squashfs: each different set is stored once and named by its number."""

from __future__ import annotations

import struct
from typing import IO

from crucible.images.layers.metadata import Metadata, reference

NONE = 0xFFFFFFFF
_PREFIXES = ((b"user.", 0), (b"trusted.", 1), (b"security.", 2))

Attributes = tuple[tuple[bytes, bytes], ...]


class AttributeTable:
    def __init__(self) -> None:
        self._values = Metadata()
        self._sets = Metadata()
        self._numbers: dict[Attributes, int] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def number_of(self, attributes: Attributes) -> int:
        if not attributes:
            return NONE
        number = self._numbers.get(attributes)
        if number is None:
            number = self._numbers[attributes] = len(self._numbers)
            self._add(attributes)
        return number

    def write(self, file: IO[bytes]) -> int:
        """Where the table of sets is found. It must be the last thing in the file."""
        values_start = file.tell()
        self._values.write(file)
        starts = self._sets.write(file)
        begin = file.tell()
        file.write(struct.pack("<QII", values_start, len(self._numbers), 0))
        file.write(struct.pack(f"<{len(starts)}Q", *starts))
        return begin

    def _add(self, attributes: Attributes) -> None:
        start = len(self._values)
        for name, value in attributes:
            prefix, kind = next(each for each in _PREFIXES if name.startswith(each[0]))
            rest = name.removeprefix(prefix)
            self._values.append(struct.pack("<HH", kind, len(rest)) + rest)
            self._values.append(struct.pack("<I", len(value)) + value)
        size = len(self._values) - start
        self._sets.append(struct.pack("<QII", reference(start), len(attributes), size))
