"""Where the files of a tar lie, without unpacking any. For archives of images, which are hostile like all input.

Our own reader because tarfile believes what headers say: one of them could make it read gigabytes into memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

_BLOCK = 512
_MAX_MEMBERS = 100_000
_MAX_EXTENSION_BYTES = 64 << 10
_MAX_PATH = 4096
_MAX_LINKS = 8
_REGULAR, _LINKS = (b"0", b"\0", b"7"), (b"1", b"2")
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"
_PASSED_OVER = (b"3", b"4", b"5", b"6")


class BadTar(Exception):
    """What is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TarIndex:
    """Files by their path, and links by theirs with the path they lead to. A later entry wins."""

    files: Mapping[str, Member]
    links: Mapping[str, str]

    def find(self, path: str) -> Member | None:
        """Links are followed inside the archive only."""
        name: str | None = normal_path(path)
        for _ in range(_MAX_LINKS):
            if name is None:
                return None
            if name in self.files:
                return self.files[name]
            name = self.links.get(name)
        return None


def normal_path(path: str) -> str | None:
    """Relative and without dots; None for what leads outside."""
    if not path or path.startswith("/") or len(path) > _MAX_PATH:
        return None
    normal = posixpath.normpath(path)
    return None if normal == ".." or normal.startswith("../") else normal


def index_tar(stream: IO[bytes]) -> TarIndex:
    """Reads every header. Raises BadTar."""
    size = stream.seek(0, 2)
    files: dict[str, Member] = {}
    links: dict[str, str] = {}
    override: dict[str, str] = {}
    position = count = 0
    while position + _BLOCK <= size:
        stream.seek(position)
        header = stream.read(_BLOCK)
        if not header.strip(b"\0"):
            break
        count += 1
        if count > _MAX_MEMBERS:
            raise BadTar(f"it has more than {_MAX_MEMBERS} entries")
        kind = header[156:157]
        length = _length(header, override)
        start = position + _BLOCK
        if start + length > size:
            raise BadTar("it ends in the middle of an entry")
        position = start + -(-length // _BLOCK) * _BLOCK
        if kind in (_PAX, _LONG_NAME, _LONG_LINK):
            override |= _extension(stream, kind, length)
            continue
        _note(files, links, header, kind, override, Member(offset=start, size=length))
        override = {}
    return TarIndex(files=files, links=links)


def _note(
    files: dict[str, Member],
    links: dict[str, str],
    header: bytes,
    kind: bytes,
    override: dict[str, str],
    member: Member,
) -> None:
    if kind in (*_PASSED_OVER, _PAX_GLOBAL):
        return
    name = normal_path(override.get("path") or _name(header))
    if name is None:
        return  # nothing that we look for is called that
    if kind in _REGULAR:
        files[name] = member
        links.pop(name, None)
    elif kind in _LINKS:
        target = override.get("linkpath") or _text(header[157:257])
        if kind == b"2":
            target = posixpath.join(posixpath.dirname(name), target)
        if (leads_to := normal_path(target)) is not None:
            links[name] = leads_to
            files.pop(name, None)
    else:
        raise BadTar(f"it has an entry of the kind {kind!r}")


def _length(header: bytes, override: dict[str, str]) -> int:
    if _checksum(header) != _number(header[148:156]):
        raise BadTar("a header's checksum is wrong")
    if (told := override.get("size")) is not None:
        if not (told.isascii() and told.isdecimal()) or len(told) > 18:
            raise BadTar("an entry's size is no number")
        return int(told)
    return _number(header[124:136])


def _checksum(header: bytes) -> int:
    return sum(header[:148]) + 8 * 0x20 + sum(header[156:])


def _number(field: bytes) -> int:
    """Octal, or binary where the first bit says so."""
    if field[0] == 0x80:
        number = int.from_bytes(field[1:], "big")
        if number >= 1 << 60:
            raise BadTar("an entry is too large")
        return number
    digits = field.split(b"\0", 1)[0].strip(b" ")
    try:
        return int(digits or b"0", 8) if not digits.startswith((b"-", b"+", b"_")) else _refuse()
    except ValueError:
        return _refuse()


def _refuse() -> int:
    raise BadTar("a header holds something that is no number")


def _extension(stream: IO[bytes], kind: bytes, length: int) -> dict[str, str]:
    if length > _MAX_EXTENSION_BYTES:
        raise BadTar("an entry's name is too long")
    data = stream.read(length)
    if kind != _PAX:
        return {"path" if kind == _LONG_NAME else "linkpath": _text(data)}
    found = {}
    while data:
        digits = data[:9].partition(b" ")[0]
        if not digits.isdigit() or not len(digits) + 3 <= int(digits) <= len(data):
            raise BadTar("an extended header is broken")
        record = data[len(digits) + 1 : int(digits)]
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if equals and key in (b"path", b"linkpath", b"size"):
            found[key.decode()] = _text(value)
        data = data[int(digits) :]
    return found


def _name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
