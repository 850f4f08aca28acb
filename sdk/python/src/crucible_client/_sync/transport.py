"""How connections are made in a thread. Its twin in `_async` has the same names."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import httpcore
import httpx

from crucible_client.address import Address

KEPT_ALIVE = 20


# Each temporary sandbox has a connection of its own: their number has no limit.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_ALIVE)


def make_transport(address: Address) -> httpx.HTTPTransport | None:
    """None: the usual one, with the proxies and certificates that the environment names."""
    if address.url.startswith("https:"):
        return None
    # Without certificates: to load them takes longer than most requests.
    transport = httpx.HTTPTransport(uds=address.socket, verify=False, limits=LIMITS)
    if address.socket is not None:
        transport._pool = httpcore.ConnectionPool(
            uds=address.socket,
            max_connections=None,
            max_keepalive_connections=KEPT_ALIVE,
            keepalive_expiry=LIMITS.keepalive_expiry,
            network_backend=_Careful(),
        )
    return transport


class _Careful(httpcore.SyncBackend):
    """httpcore forgets to close a socket at whose other end nobody listens; so nobody asks it to open one."""

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.settimeout(timeout)
                probe.connect(path)
            except OSError as error:
                raise httpcore.ConnectError(error) from error
        return super().connect_unix_socket(path, timeout, socket_options)
