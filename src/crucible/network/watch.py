"""What a program sends on a connection, judged before it is passed on. No I/O: bytes in, bytes out or a Violation.

TLS and HTTP are recognised by how they begin, on every port; other protocols pass. Nothing waits for a client that
does not speak first, and half a line is passed on as it comes: a server does nothing with half a head.
"""

from __future__ import annotations

import re
from typing import Final

from crucible.network.claims import (
    Claims,
    Expected,
    Http2Claims,
    HttpClaims,
    Rewrite,
    TlsClaims,
)
from crucible.network.guard import Guard, Leaks
from crucible.network.violation import Malformed, Violation

MAX_FIRST_LINE: Final = 1 << 14
WEB_PORT: Final = 80

_TLS_RECORD: Final = 22
_OLD_HELLO_BEGINS: Final = 4
_HTTP2: Final = b"PRI * HTTP/2.0\r\n"
_PROXY_LINE: Final = b"PROXY "
_PROXY_BLOCK: Final = b"\r\n\r\n\0\r\nQUIT\n"
# Some servers take a lone CR for the end of a line.
_LINE_END: Final = re.compile(rb"\n|\r(?!\n)(?=.)", re.DOTALL)
# What a forgiving server may pass over, and what it may then take for a method and the rest of a request line.
_BEFORE_LINE: Final = b"\0 \t\r\n\v\f"
_HALF_REQUEST: Final = re.compile(rb"[\x21-\x7e]*(?:[\t-\r ].*)?", re.DOTALL)
_HTTP_LINE: Final = re.compile(
    rb"[\x21-\x7e]*[\t-\r ].*HTTP/|GET[\t-\r ]", re.IGNORECASE | re.DOTALL
)


class Watch:
    """One connection's. `up` takes what the program sent and returns what the server may have.

    `down` is shown what the server sent, and returns what may follow upwards because of it. When `is_free` is set,
    names are no longer looked at. With `rewrite`, nothing but requests of HTTP/1.x may come; `claims` reads a stream
    whose protocol is known. `guard` sees all that can be read of what is sent, `leaks` what comes back.
    """

    def __init__(
        self,
        expected: Expected,
        *,
        rewrite: Rewrite | None = None,
        guard: Guard | None = None,
        claims: Claims | None = None,
        leaks: Leaks | None = None,
    ) -> None:
        self._expected = expected
        self._rewrite = rewrite
        self._guard = guard
        self._leaks = leaks
        self._first = bytearray()
        self._sent = b""
        self._claims = claims
        self.has_answer = False
        self.is_free = not expected.is_checked

    @property
    def protocol(self) -> str:
        return "tcp" if self._claims is None else self._claims.protocol

    @property
    def is_waiting(self) -> bool:
        """Whether something was begun that can only be judged when more of it has come."""
        if self.is_free:
            return False
        if self._claims is None:
            return len(self._first) > len(self._sent)
        return self._claims.is_waiting

    def up(self, data: bytes) -> bytes:
        """Raises Violation."""
        if self.is_free or not data:
            return data if self._guard is None else self._guard.body(data)
        try:
            return self._begin(data) if self._claims is None else self._go_on(self._claims, data)
        except Malformed as error:
            raise Violation(str(error)) from None

    def end(self) -> None:
        """The program will send no more. Raises Violation if something was begun and never made whole."""
        if self.is_waiting:
            raise Violation("the head of a stream is cut off")

    def down(self, data: bytes) -> bytes:
        """Raises Violation."""
        self.has_answer = True
        if self._leaks is not None:
            self._leaks.down(data)
        if self.is_free or self._claims is None:
            return b""
        passed = self._claims.down(data)
        self.is_free = self._claims.is_over
        return passed

    def _go_on(self, claims: Claims, data: bytes) -> bytes:
        passed = claims.up(data)
        self.is_free = claims.is_over
        if not self._sent or not passed:
            return passed
        if not passed.startswith(self._sent):
            raise Malformed("the beginning of a stream is not well formed")
        behind = passed[len(self._sent) :]
        self._sent = b""
        return behind

    def _begin(self, data: bytes) -> bytes:
        self._first += data
        first = bytes(self._first)
        if self._rewrite is not None:
            return self._read_as(self._http())
        if first[0] == _TLS_RECORD and first[1:2] in (b"", b"\x03"):
            return self._read_as(TlsClaims(self._expected)) if len(first) > 1 else b""
        if _is_old_hello(first):
            raise Malformed("an old hello of TLS names no server")
        if first.startswith((_PROXY_LINE, _PROXY_BLOCK)):
            raise Malformed("a PROXY header would speak for somebody else")
        line = first.lstrip(_BEFORE_LINE)
        end = _LINE_END.search(line)
        if end is None and len(first) <= MAX_FIRST_LINE:
            return self._half_line(first, line)
        if first.startswith(_HTTP2):
            return self._read_as(Http2Claims(self._expected, guard=self._guard))
        if _HTTP_LINE.match(line, 0, len(line) if end is None else end.end()):
            return self._read_as(self._http())
        return self._let_go(first)

    def _half_line(self, first: bytes, line: bytes) -> bytes:
        is_blank = not first.strip(b"\r\n")
        if self._expected.port == WEB_PORT or is_blank or first.startswith(b"PR"):
            return b""
        if len(first) > _OLD_HELLO_BEGINS and not _HALF_REQUEST.fullmatch(line):
            return self._let_go(first)
        passed = first[len(self._sent) :]
        self._sent = first
        if self._guard is not None:
            self._guard.body(passed)
        return passed

    def _let_go(self, first: bytes) -> bytes:
        if self._expected.port == WEB_PORT:
            raise Malformed(f"what is sent to port {WEB_PORT} is neither HTTP nor TLS")
        self.is_free = True
        return self.up(first)[len(self._sent) :]

    def _http(self) -> HttpClaims:
        return HttpClaims(self._expected, rewrite=self._rewrite, guard=self._guard)

    def _read_as(self, claims: Claims) -> bytes:
        self._claims = claims
        if isinstance(claims, TlsClaims):
            self._guard = None
        first = bytes(self._first)
        self._first.clear()
        return self._go_on(claims, first)


def _is_old_hello(first: bytes) -> bool:
    """The hello of SSL 2, which some servers still read."""
    if len(first) <= _OLD_HELLO_BEGINS or not first[0] & 0x80 or first[2] != 1:
        return False
    return first[3] == 3 or first[3:5] == b"\x00\x02"
