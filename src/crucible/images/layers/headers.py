"""The entries of a tar, as every packer writes them: ustar, GNU and PAX. Nothing in them is believed.

Names are bytes. An absolute one means the image's own root, as it does to all engines; one with `..` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from struct import unpack

from crucible.errors import ImageBomb, ImageUnsafe, LayerDamaged
from crucible.images.layers.limits import LARGEST_ID, LONGEST_NAME, LONGEST_PATH, Limits
from crucible.images.layers.reading import LayerStream

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_XATTR = b"SCHILY.xattr."
_SPARSE = b"GNU.sparse."
# Only the last of a name's headers counts, and more than these never come before one entry.
_MOST_HEADERS = 8
_LONGEST_NUMBER = 32

Parts = tuple[bytes, ...]


class Kind(Enum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    LINK = "hard link"
    FIFO = "fifo"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`parts` is the path below the root, empty for the root itself.

    `target` is a symbolic link's text; `linked` the path of what a hard link names.
    """

    parts: Parts
    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime_s: int
    size: int = 0
    target: bytes = b""
    linked: Parts = ()
    attributes: tuple[tuple[bytes, bytes], ...] = ()


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.LINK,
    b"2": Kind.SYMLINK,
    b"3": Kind.DEVICE,
    b"4": Kind.DEVICE,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
}


def entries(stream: LayerStream, digest: str, limits: Limits) -> Iterator[Entry]:
    """Every entry in turn. Whoever gets a file takes its bytes from the stream, or they are passed over."""
    reader = _Reader(stream, digest, limits)
    while (entry := reader.next()) is not None:
        end = stream.position + entry.size
        yield entry
        stream.skip(end - stream.position + -end % _BLOCK)


class _Reader:
    def __init__(self, stream: LayerStream, digest: str, limits: Limits) -> None:
        self._stream = stream
        self._digest = digest
        self._limits = limits

    def next(self) -> Entry | None:
        extra: dict[bytes, bytes] = {}
        for _ in range(_MOST_HEADERS):
            header = self._header()
            if header is None:
                if extra:
                    raise self._damaged("its last entry has no header")
                return None
            flag = header[156:157]
            if flag == b"x":
                extra |= parse_records(self._text(header), self._digest)
            elif flag == b"g":
                self._text(header)  # what is said about all entries is ignored, as all engines do
            elif flag == b"L":
                extra[b"path"] = self._text(header).partition(b"\0")[0]
            elif flag == b"K":
                extra[b"linkpath"] = self._text(header).partition(b"\0")[0]
            else:
                return self._entry(header, extra)
        raise self._unsafe("an entry has too many headers")

    def _header(self) -> bytes | None:
        """The next one that is not padding, its checksum right; None at the end."""
        if self._stream.at_end():
            return None
        header = self._stream.take(_BLOCK)
        if header == _ZEROS:
            return None
        field = header[148:156]
        found = sum(header) - sum(field) + 8 * ord(" ")
        said = self._number(field, "checksum")
        if said != found and said != found - 256 * sum(
            byte < 0 for byte in unpack("148b8x356b", header)
        ):
            raise self._damaged("a header of its tar has a wrong checksum")
        return header

    def _entry(self, header: bytes, extra: Mapping[bytes, bytes]) -> Entry:
        if header[156:157] == b"S" or any(key.startswith(_SPARSE) for key in extra):
            raise self._unsafe("it holds a sparse file, which Crucible does not unpack")
        kind = _KINDS.get(header[156:157])
        if kind is None:
            raise self._unsafe(f"it holds an entry of unknown kind {header[156:157]!r}")
        name = extra.get(b"path") or _name(header)
        if kind is Kind.FILE and name.endswith(b"/"):
            kind = Kind.DIRECTORY  # as the oldest packers write them
        link = extra.get(b"linkpath") or header[157:257].partition(b"\0")[0]
        return Entry(
            parts=self._path(name),
            kind=kind,
            mode=self._number(header[100:108], "mode") & 0o7777,
            uid=self._id(header[108:116], extra.get(b"uid")),
            gid=self._id(header[116:124], extra.get(b"gid")),
            mtime_s=self._mtime_s(header[136:148], extra.get(b"mtime")),
            size=self._size(header[124:136], extra.get(b"size")) if kind is Kind.FILE else 0,
            target=self._target(link) if kind is Kind.SYMLINK else b"",
            linked=self._path(link) if kind is Kind.LINK else (),
            attributes=self._attributes(extra) if extra else (),
        )

    def _path(self, name: bytes) -> Parts:
        if len(name) > LONGEST_PATH:
            raise self._unsafe(f"a path has {len(name)} bytes")
        if b"\0" in name:
            raise self._unsafe(f"the path {name[:80]!r} has a NUL in it")
        parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
        if b".." in parts:
            raise self._unsafe(f"the path {name[:80]!r} climbs out of its directory")
        if len(parts) > self._limits.depth:
            raise self._unsafe(f"the path {name[:80]!r}… is {len(parts)} directories deep")
        if any(len(part) > LONGEST_NAME for part in parts):
            raise self._unsafe(f"a name has more than {LONGEST_NAME} bytes")
        return parts

    def _target(self, link: bytes) -> bytes:
        if not link or b"\0" in link or len(link) >= LONGEST_PATH:
            raise self._unsafe(f"a symbolic link leads to {link[:80]!r}")
        return link

    def _size(self, field: bytes, text: bytes | None) -> int:
        size = self._decimal(text, "size") if text else self._number(field, "size")
        if size < 0:
            raise self._damaged(f"an entry has {size} bytes")
        if size > self._limits.total_bytes:
            raise ImageBomb(f"Layer {self._digest} says it holds a file of {size} bytes")
        return size

    def _id(self, field: bytes, text: bytes | None) -> int:
        number = self._decimal(text, "owner") if text else self._number(field, "owner")
        if not 0 <= number <= LARGEST_ID:
            raise self._unsafe(f"an entry belongs to {number}, which no user or group can be")
        return number

    def _mtime_s(self, field: bytes, text: bytes | None) -> int:
        """Whole seconds; what a squashfs cannot tell becomes the nearest that it can."""
        whole = text.partition(b".")[0] if text else b""
        seconds = self._decimal(whole, "time") if whole else self._number(field, "time")
        return min(max(seconds, 0), (1 << 32) - 1)

    def _attributes(self, extra: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
        found = [
            (key.removeprefix(_XATTR), value)
            for key, value in extra.items()
            if key.startswith(_XATTR)
        ]
        if sum(len(key) + len(value) for key, value in found) > self._limits.attribute_bytes:
            raise ImageBomb(f"Layer {self._digest} gives one file too many attributes")
        if any(b"\0" in key or not 0 < len(key) <= LONGEST_NAME for key, _ in found):
            raise self._unsafe("an extended attribute has a name that cannot be")
        return tuple(sorted(found))

    def _text(self, header: bytes) -> bytes:
        """The content of a header's own entry: a long name or a list of records."""
        size = self._number(header[124:136], "size")
        if not 0 <= size <= self._limits.header_bytes:
            raise ImageBomb(f"Layer {self._digest} has a header of {size} bytes")
        text = self._stream.take(size)
        self._stream.skip(-size % _BLOCK)
        return text

    def _number(self, field: bytes, what: str) -> int:
        """Octal digits, or for large values the bytes of the number itself."""
        first = field[0]
        if first in (0x80, 0xFF):
            number = int.from_bytes(field[1:], "big")
            return number if first == 0x80 else number - (1 << 8 * (len(field) - 1))
        text = field.partition(b"\0")[0].strip()
        try:
            return int(text, 8) if text else 0
        except ValueError:
            raise self._damaged(f"the {what} of an entry is {field!r}") from None

    def _decimal(self, text: bytes, what: str) -> int:
        digits = text.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
            raise self._damaged(f"the {what} of an entry is {text[:_LONGEST_NUMBER]!r}")
        return int(text)

    def _damaged(self, why: str) -> LayerDamaged:
        return LayerDamaged(self._digest, why)

    def _unsafe(self, why: str) -> ImageUnsafe:
        return ImageUnsafe(self._digest, why)


def parse_records(text: bytes, digest: str) -> dict[bytes, bytes]:
    """`30 path=…\\n` again and again: the length counts the whole record."""
    records: dict[bytes, bytes] = {}
    start = 0
    while start < len(text):
        length, space, _ = text[start : start + _LONGEST_NUMBER].partition(b" ")
        if not space or not length.isdigit():
            raise LayerDamaged(digest, "a header of its tar is not readable")
        end = start + int(length)
        record = text[start + len(length) + 1 : end]
        key, equals, value = record[:-1].partition(b"=")
        if end > len(text) or record[-1:] != b"\n" or not equals or not key:
            raise LayerDamaged(digest, "a header of its tar is not readable")
        records[key] = value
        start = end
    return records


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    # GNU's own headers have other things where the standard has the first half of a long name.
    if header[257:263] != b"ustar\0":
        return name
    prefix = header[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name
