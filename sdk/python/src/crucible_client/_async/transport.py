"""How connections are made where others run meanwhile. Its twin in `_sync` has the same names."""

from __future__ import annotations

import httpx

from crucible_client.address import Address

KEPT_ALIVE = 20


# Each temporary sandbox has a connection of its own: their number has no limit.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_ALIVE)


def make_transport(address: Address) -> httpx.AsyncHTTPTransport | None:
    """None: the usual one, with the proxies and certificates that the environment names."""
    if address.url.startswith("https:"):
        return None
    # Without certificates: to load them takes longer than most requests.
    return httpx.AsyncHTTPTransport(uds=address.socket, verify=False, limits=LIMITS)
