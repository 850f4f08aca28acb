"""The addresses that HTTP is spoken to: checked once, compared by where they lead."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

_MAX_URL = 16 << 10
_PORTS = {"http": 80, "https": 443}


class BadUrl(Exception):
    """Why something is no address that we would go to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """`target` is path and query. Two with the same `origin` are the same server."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """As in a registry's name: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def joined(self, location: str) -> Url:
        """Where a `Location` seen here leads. Raises BadUrl."""
        _check_text(location)
        try:
            return parse_url(urljoin(str(self), location))
        except ValueError:
            raise BadUrl(f"{_cut(location)!r} is no address") from None


def parse_url(text: str) -> Url:
    """Raises BadUrl for what is not plain http or https with a host, and for logins in an address."""
    _check_text(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadUrl(f"{_cut(text)!r} is no address") from None
    if parts.scheme not in _PORTS or not host:
        raise BadUrl(f"{_cut(text)!r} is no http or https address")
    if "@" in parts.netloc:
        raise BadUrl("it holds a login in the address")
    target = parts.path or "/"
    return Url(
        scheme=parts.scheme,
        host=host,
        port=_PORTS[parts.scheme] if port is None else port,
        target=f"{target}?{parts.query}" if parts.query else target,
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_host(registry: str) -> tuple[str, int | None]:
    """A registry's name as it was parsed → host and port. IPv6 stands in brackets."""
    if registry.startswith("["):
        host, _, rest = registry[1:].partition("]")
        return host, int(rest[1:]) if rest else None
    host, colon, port = registry.partition(":")
    return host, int(port) if colon else None


def _check_text(text: str) -> None:
    """`urlsplit` drops line ends and tabs silently, so what is looked at would not be what was sent."""
    if len(text) > _MAX_URL:
        raise BadUrl("an address is too long")
    if not text.isascii() or not text.isprintable() or any(sign in text for sign in ' "<>\\^`{|}'):
        raise BadUrl(f"{_cut(text)!r} holds characters that no address has")


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
