"""The bytes of an image's files as a squashfs holds them: one after the other, not compressed, blocks of zeros out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from crucible.images.layers.reading import LayerStream

BLOCK = 1 << 16
_ZEROS = bytes(BLOCK)
# Copying everything again is worth it when that much was replaced or removed by later layers.
_WASTE_BYTES = 16 << 20
_WASTE_SHARE = 8


@dataclass(slots=True, kw_only=True)
class Content:
    """Where a file's bytes lie. `holes` are the numbers of its blocks that hold only zeros and lie nowhere."""

    start: int
    size: int
    holes: frozenset[int] = frozenset()

    @property
    def stored_bytes(self) -> int:
        return self.size - len(self.holes) * BLOCK

    def block_sizes(self) -> Iterator[int]:
        whole, rest = divmod(self.size, BLOCK)
        for number in range(whole):
            yield 0 if number in self.holes else BLOCK
        if rest:
            yield rest


class ContentFile:
    """Appends files to `file`, which is at `start` and open for reading and writing."""

    def __init__(self, file: IO[bytes], *, start: int) -> None:
        self.end = start
        self._file = file
        self._start = start

    def store(self, stream: LayerStream, size: int) -> Content:
        start = self.end
        if size < BLOCK:
            for piece in stream.pieces(size):
                self._file.write(piece)
            self.end += size
            return Content(start=start, size=size)
        holes = []
        for number in range(size // BLOCK):
            block = stream.take(BLOCK)
            if block == _ZEROS:
                holes.append(number)
            else:
                self._file.write(block)
                self.end += BLOCK
        for piece in stream.pieces(size % BLOCK):
            self._file.write(piece)
        self.end += size % BLOCK
        return Content(start=start, size=size, holes=frozenset(holes))

    def compact(self, kept: Iterable[Content]) -> None:
        """Closes the gaps that files left which no layer shows any more, if they are worth it."""
        contents = sorted((c for c in kept if c.stored_bytes), key=lambda content: content.start)
        if not self.is_wasteful(contents):
            return
        self._file.flush()
        descriptor, place = self._file.fileno(), self._start
        for content in contents:
            if place != content.start:
                _move(descriptor, content.start, place, content.stored_bytes)
            content.start, place = place, place + content.stored_bytes
        self._file.truncate(place)
        self._file.seek(place)
        self.end = place

    def is_wasteful(self, kept: Iterable[Content]) -> bool:
        """Whether so much of it is needed by nothing that closing the gaps is worth it."""
        waste = self.end - self._start - sum(content.stored_bytes for content in kept)
        return waste >= _WASTE_BYTES and waste * _WASTE_SHARE >= self.end


def _move(descriptor: int, source: int, target: int, count: int) -> None:
    """Towards the beginning, so that what is overwritten was moved before."""
    while count:
        data = os.pread(descriptor, min(count, 1 << 20), source)
        if not data:
            raise EOFError("the file was cut short while it was written")
        os.pwrite(descriptor, data, target)
        source, target, count = source + len(data), target + len(data), count - len(data)
