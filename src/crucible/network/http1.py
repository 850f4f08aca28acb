"""Requests of HTTP/1.x as a client sends them, read strictly and passed on: heads whole, bodies as they come.

Whatever two servers could read in two ways (two lengths, a length and chunks, folded or odd lines) is
refused, so that what is judged here is what the server sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from crucible.network.addresses import parse_address
from crucible.network.names import normal_name
from crucible.network.violation import Malformed

MAX_HEAD: Final = 1 << 16
MAX_FIELDS: Final = 256
MAX_CHUNK_LINE: Final = 1024

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REQUEST: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ([\x21-\x7e]+) HTTP/1\.([01])")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_ABSOLUTE: Final = re.compile(rb"(?i:(http|https|ws|wss))://([^/?#]+)([/?#].*)?")
_AUTHORITY: Final = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([^:@/?#\[\]]+))(?::([0-9]{0,5}))?")
# Fields that decide where a request goes or where it ends must not be taken away on the way.
_FRAMING: Final = (b"host", b"content-length", b"transfer-encoding")

Field = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`fields` keep order and spelling. `hosts` is every host that it names, without ports."""

    method: bytes
    target: bytes
    minor: int
    fields: tuple[Field, ...]
    hosts: tuple[str, ...]

    def values(self, name: bytes) -> list[bytes]:
        return [value for field, value in self.fields if field.lower() == name]

    def without(self, *names: bytes) -> Request:
        kept = tuple(field for field in self.fields if field[0].lower() not in names)
        return replace(self, fields=kept)

    def encoded(self) -> bytes:
        lines = [b"%s %s HTTP/1.%d" % (self.method, self.target, self.minor)]
        lines += [b"%s: %s" % field for field in self.fields]
        return b"\r\n".join([*lines, b"", b""])


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_LINE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILERS = auto()


class RequestReader:
    """Sees what a client sends; what comes out of `feed` is what the server may have.

    `on_request` is asked about every head and returns the one to pass on; a head is held until it is whole.
    `on_body` is shown every piece of a body and returns what takes its place, as long as it was.
    """

    def __init__(
        self,
        on_request: Callable[[Request], Request],
        on_body: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._on_request = on_request
        self._on_body = on_body
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._scanned = 0
        self._left = 0
        self.count = 0
        self.is_held = False

    @property
    def is_in_head(self) -> bool:
        """Whether a head was begun and is not whole."""
        return self._state is _State.HEAD and bool(self._buffer) and not self.is_held

    def feed(self, data: bytes) -> bytes:
        """Raises Malformed, and whatever `on_request` raises. While `is_held` is set, it only collects."""
        self._buffer += data
        if self.is_held and len(self._buffer) > MAX_HEAD:
            raise Malformed("a client goes on sending before its upgrade is answered")
        passed: list[bytes] = []
        while self._buffer and not self.is_held and (piece := self._step()) is not None:
            passed.append(piece)
        return b"".join(passed)

    def rest(self) -> bytes:
        """What was collected and not read, given away: for a connection that is no longer HTTP."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _step(self) -> bytes | None:
        match self._state:
            case _State.HEAD:
                return self._head()
            case _State.LENGTH | _State.CHUNK:
                return self._body()
            case _State.CHUNK_LINE:
                return self._chunk_line()
            case _State.CHUNK_END:
                return self._chunk_end()
            case _State.TRAILERS:
                return self._trailers()

    def _head(self) -> bytes | None:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        head = self._lines()
        if head is None:
            return None
        request = self._on_request(parse_request(head))
        self.count += 1
        self._expect_body(request)
        return request.encoded()

    def _lines(self) -> bytes | None:
        """Lines up to and with an empty one, once they are there."""
        held = self._buffer
        end = held.find(b"\r\n\r\n", max(0, self._scanned - 3))
        last = len(held) if end < 0 else end + 4
        if last > MAX_HEAD:
            raise Malformed(f"an HTTP head is larger than {MAX_HEAD} bytes")
        if held.count(b"\n", self._scanned, last) != held.count(
            b"\r\n", max(0, self._scanned - 1), last
        ):
            raise Malformed("a line of an HTTP head does not end as it must")
        self._scanned = last if end < 0 else 0
        if end < 0:
            return None
        lines = bytes(held[:last])
        del held[:last]
        return lines

    def _expect_body(self, request: Request) -> None:
        lengths = request.values(b"content-length")
        if request.values(b"transfer-encoding"):
            self._state = _State.CHUNK_LINE
        elif lengths and int(lengths[0]):
            self._state = _State.LENGTH
            self._left = int(lengths[0])

    def _body(self) -> bytes:
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        if not self._left:
            is_chunk = self._state is _State.CHUNK
            self._state = _State.CHUNK_END if is_chunk else _State.HEAD
        return piece if self._on_body is None else self._on_body(piece)

    def _chunk_line(self) -> bytes | None:
        line = self._line(MAX_CHUNK_LINE)
        if line is None:
            return None
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise Malformed("a chunk of an HTTP body has no proper length")
        self._left = int(match[1], 16)
        self._state = _State.CHUNK if self._left else _State.TRAILERS
        return match[1] + b"\r\n"

    def _chunk_end(self) -> bytes | None:
        line = self._line(2)
        if line is None:
            return None
        if line:
            raise Malformed("a chunk of an HTTP body is longer than it says")
        self._state = _State.CHUNK_LINE
        return b"\r\n"

    def _trailers(self) -> bytes | None:
        if self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
            self._state = _State.HEAD
            return b"\r\n"
        if self._buffer == b"\r" or (lines := self._lines()) is None:
            return None
        fields = _fields(lines[:-4].split(b"\r\n"))
        if any(name.lower() in _FRAMING for name, _ in fields):
            raise Malformed("trailers of an HTTP body change where it ends or goes")
        self._state = _State.HEAD
        encoded = b"".join(b"%s: %s\r\n" % field for field in fields)
        if self._on_body is not None:
            encoded = self._on_body(encoded)
        return encoded + b"\r\n"

    def _line(self, most: int) -> bytes | None:
        end = self._buffer.find(b"\n", 0, most)
        if end < 0:
            if len(self._buffer) >= most:
                raise Malformed("a line of an HTTP body is too long")
            return None
        line = bytes(self._buffer[: end + 1])
        if not line.endswith(b"\r\n"):
            raise Malformed("a line of an HTTP body does not end as it must")
        del self._buffer[: end + 1]
        return line[:-2]


def parse_request(head: bytes) -> Request:
    """A whole head with its empty line. Raises Malformed."""
    first, *lines = head[:-4].split(b"\r\n")
    match = _REQUEST.fullmatch(first)
    if match is None:
        raise Malformed("an HTTP request line is not well formed")
    method, target, minor = match[1], match[2], int(match[3])
    fields = _fields(lines)
    request = Request(method=method, target=target, minor=minor, fields=fields, hosts=())
    _check_framing(request)
    return replace(request, hosts=_hosts(request))


def split_authority(text: bytes) -> tuple[str, int | None]:
    """`host`, `host:port`, `[v6]:port`: the host in its one spelling, and the port. Raises Malformed."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise Malformed("an HTTP request names a host that is none")
    port = int(match[3]) if match[3] else None
    written = (match[1] or match[2]).decode("latin-1")
    address = parse_address(written)
    host = str(address) if address is not None else normal_name(written)
    if host is None or (match[1] and (address is None or address.version != 6)):
        raise Malformed("an HTTP request names a host that is none")
    if port is not None and not 1 <= port <= 65535:
        raise Malformed("an HTTP request names a port that is none")
    return host, port


def split_absolute(target: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Scheme in lower case, authority and the rest of a target in absolute form; None if it is not in that form."""
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        return None
    rest = match[3] or b"/"
    return match[1].lower(), match[2], rest if rest.startswith(b"/") else b"/" + rest


def _fields(lines: list[bytes]) -> tuple[Field, ...]:
    if len(lines) > MAX_FIELDS:
        raise Malformed(f"an HTTP head has more than {MAX_FIELDS} fields")
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Malformed("a field of an HTTP head is not well formed")
        fields.append((name, value.strip(b" \t")))
    return tuple(fields)


def _check_framing(request: Request) -> None:
    lengths = request.values(b"content-length")
    codings = request.values(b"transfer-encoding")
    if codings and (lengths or request.minor == 0 or [c.lower() for c in codings] != [b"chunked"]):
        raise Malformed("an HTTP request does not say clearly where it ends")
    if lengths and (len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0])):
        raise Malformed("an HTTP request does not say clearly where it ends")
    for value in request.values(b"connection"):
        if any(option.strip().lower() in _FRAMING for option in value.split(b",")):
            raise Malformed("an HTTP request wants a field dropped that says where it goes or ends")


def _hosts(request: Request) -> tuple[str, ...]:
    written = request.values(b"host")
    if len(written) > 1 or (request.minor == 1 and not written):
        raise Malformed("an HTTP request does not name exactly one host")
    hosts = [split_authority(value)[0] for value in written if value]
    if request.method == b"CONNECT":
        return (*hosts, split_authority(request.target)[0])
    if (absolute := split_absolute(request.target)) is not None:
        return (*hosts, split_authority(absolute[1])[0])
    if not request.target.startswith(b"/") and request.target != b"*":
        raise Malformed("an HTTP request is for something that is no path")
    return tuple(hosts)
