"""Reads a tar archive that comes in pieces and may be hostile. Pure: bytes in, members and their data out.

Knows ustar, PAX and GNU long names; refuses sparse members, negative or lying sizes and whatever is too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from crucible.errors import PathRefused
from crucible.sandbox.workspace.names import shown

BLOCK = 512
MAX_META_BYTES = 1 << 20
MAX_SIZE = 1 << 50
_MAX_MTIME_NS = 10**9 << 33
_OCTAL = frozenset(b"01234567")


class MemberType(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    HARD_LINK = "hard link"
    SPECIAL = "special file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One header. `name` and `target` are as the archive has them: nothing was checked but their length."""

    name: bytes
    type: MemberType
    mode: int
    size: int
    mtime_ns: int
    target: bytes


class MemberEnd:
    """All data of the last member has come."""


Event = Member | memoryview | MemberEnd
MEMBER_END = MemberEnd()

_TYPES = {
    b"0": MemberType.FILE,
    b"\0": MemberType.FILE,
    b"7": MemberType.FILE,
    b"1": MemberType.HARD_LINK,
    b"2": MemberType.SYMLINK,
    b"3": MemberType.SPECIAL,
    b"4": MemberType.SPECIAL,
    b"5": MemberType.DIRECTORY,
    b"6": MemberType.SPECIAL,
}
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_TARGET = b"x", b"g", b"L", b"K"
_META = (_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_TARGET)


class ArchiveReader:
    """`feed` yields for each member: the Member, its data in pieces, MEMBER_END. `meta_bytes` counts the headers."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._left = 0
        self._padding = 0
        self._meta_type = b""
        self._meta_size = 0
        self._override: dict[bytes, bytes] = {}
        self.is_complete = False
        self.meta_bytes = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Raises PathRefused for what no honest archive holds. Must be iterated to its end."""
        view = memoryview(data)
        while view and not self.is_complete:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
                self._left -= len(piece)
                yield piece
                if not self._left:
                    yield MEMBER_END
            elif self._padding:
                skipped = min(self._padding, len(view))
                self._padding -= skipped
                view = view[skipped:]
            else:
                view = self._hold(view)
                if len(self._held) == self._wanted():
                    yield from self._take_held()

    def finish(self) -> None:
        if not self.is_complete:
            raise PathRefused("The archive is cut short: the sandbox did not send all of it")

    def _wanted(self) -> int:
        return self._meta_size if self._meta_type else BLOCK

    def _hold(self, view: memoryview) -> memoryview:
        room = self._wanted() - len(self._held)
        self._held += view[:room]
        return view[room:]

    def _take_held(self) -> Iterator[Event]:
        block = bytes(self._held)
        self._held.clear()
        self.meta_bytes += len(block)
        if self._meta_type:
            self._take_meta(block)
            return
        if not any(block):
            self.is_complete = True
            return
        kind = block[156:157]
        _check_sum(block)
        if kind in _META:
            self._expect_meta(kind, _number(block[124:136]))
            return
        member = self._member(block, kind)
        self._override = {}
        self._left = member.size
        self._padding = -member.size % BLOCK
        yield member
        if not member.size:
            yield MEMBER_END

    def _expect_meta(self, kind: bytes, size: int) -> None:
        if not 0 < size <= MAX_META_BYTES:
            raise PathRefused(f"The archive holds a header of {size} bytes")
        self._meta_type, self._meta_size = kind, size

    def _take_meta(self, data: bytes) -> None:
        kind, self._meta_type = self._meta_type, b""
        self._padding = -len(data) % BLOCK
        if kind == _PAX:
            self._override |= _pax_records(data)
        elif kind == _LONG_NAME:
            self._override[b"path"] = data.split(b"\0", 1)[0]
        elif kind == _LONG_TARGET:
            self._override[b"linkpath"] = data.split(b"\0", 1)[0]
        # A global header could only speak for all members at once; ours say everything themselves.

    def _member(self, block: bytes, kind: bytes) -> Member:
        override = self._override
        name = override.get(b"path", _ustar_name(block))
        if kind not in _TYPES:
            raise PathRefused(
                f"{shown(name[:200])} is of a kind ({shown(kind)!r}) that is not taken"
            )
        type_ = _TYPES[kind]
        if kind == b"\0" and name.endswith(b"/"):
            type_ = MemberType.DIRECTORY
        size = _decimal(override[b"size"]) if b"size" in override else _number(block[124:136])
        if size and type_ is not MemberType.FILE:
            raise PathRefused(f"{shown(name[:200])} is a {type_} and claims {size} bytes of data")
        return Member(
            name=name,
            type=type_,
            mode=_number(block[100:108]) & 0o7777,
            size=size,
            mtime_ns=_mtime_ns(block[136:148], override.get(b"mtime", b"")),
            target=override.get(b"linkpath", _text(block[157:257])),
        )


def _check_sum(block: bytes) -> None:
    claimed = _number(block[148:156])
    unsigned = sum(block) - sum(block[148:156]) + 8 * 0x20
    if claimed != unsigned:
        raise PathRefused("The archive is damaged: a header's checksum is wrong")


def _ustar_name(block: bytes) -> bytes:
    name = _text(block[0:100])
    # GNU's old format has other things where ustar has a prefix.
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _number(field: bytes, *, low: int = 0) -> int:
    """Octal digits, or base 256 when the first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes((field[0] & 0x7F,)) + field[1:], "big")
        if field[0] & 0x40:
            value -= 1 << (8 * len(field) - 1)
    else:
        digits = field.split(b"\0", 1)[0].strip(b" ")
        if not _OCTAL.issuperset(digits):
            raise PathRefused(f"The archive is damaged: {shown(digits)!r} is no number")
        value = int(digits or b"0", 8)
    if not low <= value <= MAX_SIZE:
        raise PathRefused(f"The archive is damaged: a header says {value}")
    return value


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20 or int(text) > MAX_SIZE:
        raise PathRefused(f"The archive is damaged: {shown(text[:40])!r} is no size")
    return int(text)


def _mtime_ns(field: bytes, precise: bytes) -> int:
    whole, _, fraction = precise.partition(b".")
    if whole.isdigit() and len(whole) <= 10 and (fraction.isdigit() or not fraction):
        nanoseconds = int(whole) * 10**9 + int((fraction + b"0" * 9)[:9])
    else:
        nanoseconds = _number(field, low=-MAX_SIZE) * 10**9
    return max(0, min(nanoseconds, _MAX_MTIME_NS))


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    """Records `LENGTH key=value\\n`; only those are kept that say something we honour."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 8)
        length = _decimal(data[at:space]) if space > at else 0
        record = data[at : at + length]
        key, equals, value = record[space - at + 1 : -1].partition(b"=")
        if not equals or len(record) != length or record[-1:] != b"\n":
            raise PathRefused("The archive is damaged: a PAX header cannot be read")
        if key.startswith(b"GNU.sparse."):
            raise PathRefused("The archive holds a sparse member, which is not taken")
        if key in (b"path", b"linkpath", b"size", b"mtime"):
            records[key] = value
        at += length
    return records
