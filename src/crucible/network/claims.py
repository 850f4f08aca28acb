"""Who a stream says it is for, held to who was asked for: in TLS, in HTTP/1.x, in HTTP/2 without TLS.

Each reader takes what the program sends and returns what the server may have. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from crucible.network.guard import Guard
from crucible.network.hello import HelloReader
from crucible.network.http1 import Request, RequestReader, split_absolute
from crucible.network.http2 import PREFACE, FrameReader, Head
from crucible.network.policy import rule_for
from crucible.network.proxies import Upstream
from crucible.network.violation import Malformed, Violation

MAX_ANSWER_HEAD: Final = 1 << 16

Rewrite = Callable[[Request], Request]
RewriteHead = Callable[[Head], Head]

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Who a connection is for. `allows` judges a name that a stream says where no name was asked for."""

    name: str
    address: str
    port: int
    allows: Callable[[str], bool]
    is_checked: bool = True
    may_be_silent: bool = False

    def check(self, presented: tuple[str, ...], what: str) -> None:
        """Raises Violation unless every name that was said is the right one."""
        asked = self.name or self.address
        if not presented and self.name and not self.may_be_silent:
            reason = f"the {what} is missing, and `{asked}` was asked for"
            raise Violation(reason, hint=self._unchecked())
        for host in presented:
            if host == asked or (not self.name and self.allows(host)):
                continue
            reason = f"the {what} is `{host}`, but `{asked}` was asked for"
            hint = self._unchecked() if self.name else rule_for(host, self.port)
            raise Violation(reason, hint=hint)

    def _unchecked(self) -> str:
        return rule_for(self.name, self.port, "+unchecked")


class Claims(Protocol):
    """`is_waiting` while something begun can only be judged when more has come; `is_over` when no more will be."""

    protocol: str

    @property
    def is_waiting(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    def up(self, data: bytes) -> bytes:
        """Raises Violation or Malformed."""
        ...

    def down(self, data: bytes) -> bytes:
        """Is shown what the server sent; returns what may follow upwards because of it."""
        ...


class TlsClaims:
    """Holds the first hello until its server name was read; looks at every further one."""

    protocol = "tls"

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._reader = HelloReader()
        self._held = bytearray()

    @property
    def is_waiting(self) -> bool:
        return self._reader.is_waiting

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def up(self, data: bytes) -> bytes:
        for hello in self._reader.feed(data):
            presented = (hello.server_name,) if hello.server_name else ()
            self._expected.check(presented, "server name of TLS")
        if self._reader.is_waiting:
            self._held += data
            return b""
        passed = bytes(self._held) + data
        self._held.clear()
        return passed

    def down(self, data: bytes) -> bytes:
        return b""


class HttpClaims:
    """Judges every request. An upgrade ends that only when the server has agreed to it.

    `rewrite` has the last word on a request that was found good; `guard` sees what the program sent.
    """

    protocol = "http"

    def __init__(
        self, expected: Expected, *, rewrite: Rewrite | None = None, guard: Guard | None = None
    ) -> None:
        self._expected = expected
        self._rewrite = rewrite
        self._guard = guard
        self._reader = RequestReader(self._request, None if guard is None else guard.body)
        self._answer = bytearray()
        self.is_over = False

    @property
    def is_waiting(self) -> bool:
        return self._reader.is_in_head

    def up(self, data: bytes) -> bytes:
        try:
            return self._reader.feed(data)
        except Malformed as error:
            raise Violation(str(error)) from None

    def down(self, data: bytes) -> bytes:
        if not self._reader.is_held:
            return b""
        self._answer += data
        while (end := self._answer.find(b"\r\n\r\n")) >= 0:
            status = _STATUS.match(bytes(self._answer[: end + 2]))
            if status is not None and status[1].startswith(b"1") and status[1] != b"101":
                del self._answer[: end + 4]
                continue
            self._reader.is_held = False
            self._answer.clear()
            if status is not None and status[1] == b"101":
                self.is_over = True
                return self._reader.rest()
            return self.up(b"")
        if len(self._answer) > MAX_ANSWER_HEAD:
            raise Violation("the answer to an upgrade has no end")
        return b""

    def judge(self, request: Request) -> Request:
        """The one to pass on. Raises Violation."""
        if request.method == b"CONNECT":
            raise Violation("a request asks for a tunnel")
        self._expected.check(request.hosts, "host of an HTTP request")
        if self._guard is not None:
            self._guard.head((request.target, *(value for _, value in request.fields)))
        return request if self._rewrite is None else self._rewrite(request)

    def _request(self, request: Request) -> Request:
        request = self.judge(request)
        upgrades = b", ".join(request.values(b"upgrade")).lower()
        if not upgrades:
            return request
        if b"h2c" in upgrades or self._reader.count:
            # What would follow could not be judged; a server that is not asked goes on in HTTP/1.1.
            return without_upgrade(request)
        self._reader.is_held = True
        return request


class Http2Claims:
    """Begins with the preface; judges the head of every stream. `rewrite` and `guard` are as for HTTP/1.x."""

    def __init__(
        self,
        expected: Expected,
        *,
        protocol: str = "h2c",
        rewrite: RewriteHead | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.protocol = protocol
        self._expected = expected
        self._rewrite = rewrite
        self._guard = guard
        self._reader = FrameReader(self._head, None if guard is None else self._data)
        self._preface = bytearray()

    @property
    def is_waiting(self) -> bool:
        return len(self._preface) < len(PREFACE) or self._reader.is_in_head

    @property
    def is_over(self) -> bool:
        return False

    def up(self, data: bytes) -> bytes:
        missing = len(PREFACE) - len(self._preface)
        if not missing:
            return self._reader.feed(data)
        self._preface += data[:missing]
        if not PREFACE.startswith(self._preface):
            raise Malformed("the preface of HTTP/2 is not well formed")
        return data[:missing] + self._reader.feed(data[missing:])

    def down(self, data: bytes) -> bytes:
        return b""

    def _head(self, head: Head, hosts: tuple[str, ...]) -> Head | None:
        if any(name == b":method" for name, _ in head):
            self._expected.check(hosts, "authority of an HTTP/2 request")
        if self._guard is not None:
            self._guard.head(value for _, value in head)
        return None if self._rewrite is None else self._rewrite(head)

    def _data(self, stream: int, piece: bytes) -> bytes:
        return piece if self._guard is None else self._guard.body(piece, stream)


def in_absolute_form(expected: Expected, forward: Upstream, request: Request) -> Request:
    """As a proxy of the host's wants it."""
    host = expected.name or expected.address
    authority = f"[{host}]" if ":" in host else host
    if expected.port != 80:
        authority += f":{expected.port}"
    absolute = split_absolute(request.target)
    path = absolute[2] if absolute is not None else request.target
    kept = request.without(b"proxy-authorization", b"proxy-connection").fields
    if forward.credentials:
        kept = (*kept, (b"Proxy-Authorization", forward.credentials))
    return replace(request, target=b"http://" + authority.encode() + path, fields=kept)


def without_upgrade(request: Request) -> Request:
    dropped = (b"upgrade", b"http2-settings")
    fields = []
    for name, value in request.without(*dropped).fields:
        if name.lower() != b"connection":
            fields.append((name, value))
            continue
        options = [option.strip() for option in value.split(b",")]
        if kept := [option for option in options if option.lower() not in dropped]:
            fields.append((name, b", ".join(kept)))
    return replace(request, fields=tuple(fields))
