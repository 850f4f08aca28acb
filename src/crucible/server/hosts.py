"""Whose requests a browser could be made to send: a forged Host or a foreign Origin is refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from crucible.errors import Forbidden

_LOCAL = frozenset(("localhost", "localhost.localdomain"))
_LONGEST = 300
_HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,300}\Z")


def check_host(connection: HTTPConnection, names: Collection[str]) -> None:
    """A page that rebinds a name of its own to this address sends that name: only addresses and ours pass."""
    host = _name_in(connection.headers.get("host", ""))
    if host is None or not (_is_address(host) or host in _LOCAL or host in names):
        raise Forbidden(
            f"The Host {connection.headers.get('host', '')[:_LONGEST]!r} is not one of this server's",
            hint="Name it with `crucible serve --allow-host`",
        )


def is_loopback(connection: HTTPConnection) -> bool:
    """Whether it was called by a name or an address that means nothing but this machine."""
    host = _name_in(connection.headers.get("host", ""))
    if host is None or host in _LOCAL:
        return host is not None
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def label_beneath(connection: HTTPConnection, domain: str) -> str | None:
    """The one label that a request's Host has before the domain; None if it is no such name."""
    host = _name_in(connection.headers.get("host", ""))
    if not domain or host is None or not host.endswith(f".{domain}"):
        return None
    label = host[: -len(domain) - 1]
    return label if label and "." not in label else None


def check_origin(connection: HTTPConnection, public_url: str = "") -> None:
    """Programs send no Origin. A browser does, and only pages that this server itself showed may call.

    Behind another server the Host may be that one's or ours. What a browser says is the public address, whole: a page
    that came there without TLS is none of ours.
    """
    origin = connection.headers.get("origin")
    if origin is None or (public_url and origin.lower() == public_url):
        return
    place = urlsplit_netloc(origin)
    is_public = bool(public_url) and place == urlsplit(public_url).netloc
    if is_public or place != connection.headers.get("host", "").lower():
        raise Forbidden(f"The Origin {origin[:_LONGEST]!r} is not this server")


def urlsplit_netloc(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None


def _name_in(host: str) -> str | None:
    """Without its port, in small letters; None if it is no host at all."""
    if not _HOST.match(host):
        return None
    try:
        parts = urlsplit(f"//{host}")
        # Raises for one that is none.
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
