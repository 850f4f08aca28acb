"""How connections are made where others run meanwhile. Its twin in `_sync` has the same names."""

from __future__ import annotations

import httpx

from crucible_client.address import Address

KEPT_ALIVE = 20


def make_transport(address: Address) -> httpx.AsyncHTTPTransport:
    # No certificates are loaded for who speaks plain HTTP: that takes longer than most requests.
    is_secure = address.url.startswith("https:")
    # Each temporary sandbox has a connection of its own: their number has no limit.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_ALIVE)
    return httpx.AsyncHTTPTransport(uds=address.socket, verify=is_secure, limits=limits)
