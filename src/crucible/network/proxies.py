"""The host's own way out: what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say, and how such proxies are asked."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from crucible.errors import BadSetting
from crucible.network.addresses import parse_address
from crucible.network.names import normal_name
from crucible.network.outlet import ByteStream
from crucible.network.rules import parse_rule

TUNNEL_S: Final = 30.0
MAX_ANSWER: Final = 1 << 14

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")


class TunnelRefused(OSError):
    """The host's proxy does not connect us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A proxy of the host. `credentials` is the value of Proxy-Authorization, or nothing."""

    host: str
    port: int
    is_tls: bool = False
    credentials: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """`for_web` carries requests of plain HTTP, `for_rest` tunnels."""

    for_web: Upstream | None = None
    for_rest: Upstream | None = None
    exceptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Proxies:
        """Raises BadSetting for a proxy that cannot be used, so that nothing goes out beside it unnoticed."""
        everything = _setting(environment, "all_proxy")
        web = _setting(environment, "http_proxy") or everything
        rest = _setting(environment, "https_proxy") or everything
        exceptions = _setting(environment, "no_proxy").lower().replace(",", " ").split()
        return cls(for_web=_upstream(web), for_rest=_upstream(rest), exceptions=tuple(exceptions))

    def choose(self, host: str, port: int) -> Upstream | None:
        """For a connection to a name or an address in its one spelling."""
        if any(_covers(exception, host, port) for exception in self.exceptions):
            return None
        return self.for_web if port == 80 else self.for_rest


async def tunnel(stream: ByteStream, upstream: Upstream, host: str, port: int) -> ByteStream:
    """Asks the proxy at the other end of `stream` for a connection. Raises TunnelRefused and OSError."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1".encode(), f"Host: {authority}".encode()]
    if upstream.credentials:
        lines.append(b"Proxy-Authorization: " + upstream.credentials)
    async with asyncio.timeout(TUNNEL_S):
        await stream.write(b"\r\n".join([*lines, b"", b""]))
        answer = b""
        while b"\r\n\r\n" not in answer:
            if len(answer) > MAX_ANSWER:
                raise TunnelRefused("the host's proxy gives an answer without end")
            piece = await stream.read()
            if not piece:
                raise TunnelRefused("the host's proxy hung up")
            answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None or status[1] != b"200":
        said = status[1].decode() if status else "something that is not HTTP"
        raise TunnelRefused(f"the host's proxy answers {said}")
    return Begun(stream, rest) if rest else stream


class Begun:
    """A ByteStream of which something was read already."""

    def __init__(self, stream: ByteStream, first: bytes) -> None:
        self._stream = stream
        self._first = first

    async def read(self) -> bytes:
        first, self._first = self._first, b""
        return first or await self._stream.read()

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close_write(self) -> None:
        await self._stream.close_write()

    async def close(self) -> None:
        await self._stream.close()

    async def abort(self) -> None:
        await self._stream.abort()


def _setting(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _upstream(text: str) -> Upstream | None:
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise BadSetting("The host's proxy setting is not an address", hint=_HINT) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadSetting(
            f"The host's proxy is of a kind that is not supported: {parts.scheme!r}", hint=_HINT
        )
    credentials = b""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = b"Basic " + base64.b64encode(pair.encode())
    is_tls = parts.scheme == "https"
    return Upstream(
        host=parts.hostname,
        port=port or (443 if is_tls else 80),
        is_tls=is_tls,
        credentials=credentials,
    )


_HINT: Final = "Set HTTP_PROXY and HTTPS_PROXY to http://host:port, or unset them"


def _covers(exception: str, host: str, port: int) -> bool:
    """NO_PROXY as most programs read it: a name and all below it, an address or a network, with or without a port."""
    if exception == "*":
        return True
    try:
        rule = parse_rule(exception.removeprefix("*").lstrip("."))
    except BadSetting:
        return False
    if rule.ports and not rule.covers_port(port, ()):
        return False
    if (address := parse_address(host)) is not None:
        return rule.covers_address(address)
    name = normal_name(host) or ""
    return bool(rule.name) and (name == rule.name or name.endswith("." + rule.name))
