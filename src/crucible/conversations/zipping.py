"""Many files as one zip, made while it is sent: never more of it in memory than one piece."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass

from crucible.conversations.names import safe_name

_MOST_PARTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """`name` may be anything, with `/` between directories; what is sent has only names that stay beneath."""

    name: str
    data: AsyncIterable[bytes]


async def zipped(entries: AsyncIterable[ZipEntry]) -> AsyncIterator[bytes]:
    taken: set[str] = set()
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        async for entry in entries:
            info = zipfile.ZipInfo(inner_name(entry.name, taken))
            info.compress_type = zipfile.ZIP_DEFLATED
            # A plain file, readable by all, whatever it was where it came from.
            info.external_attr = 0o100644 << 16
            with archive.open(info, "w", force_zip64=True) as file:
                async for piece in entry.data:
                    await asyncio.to_thread(file.write, piece)
                    if data := sink.drain():
                        yield data
            if data := sink.drain():
                yield data
    if data := sink.drain():
        yield data


def inner_name(name: str, taken: set[str]) -> str:
    """Beneath the archive's root, and not yet taken there."""
    parts = [safe_name(part) for part in name[:4096].split("/") if part.strip(" .")]
    whole = "/".join(parts[:_MOST_PARTS]) or "file"
    place, slash, last = whole.rpartition("/")
    stem, dot, ending = last.rpartition(".")
    if not stem:
        stem, dot, ending = last, "", ""
    number, found = 2, whole
    while found.casefold() in taken:
        found = f"{place}{slash}{stem}-{number}{dot}{ending}"
        number += 1
    taken.add(found.casefold())
    return found


class _Sink(io.RawIOBase):
    """Where the archive is written to: it cannot go back, and hands on what it has."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        return len(data)

    def drain(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
