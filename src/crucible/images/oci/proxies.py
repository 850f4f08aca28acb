"""The way out through a proxy, as the environment names it (http_proxy, https_proxy, all_proxy, no_proxy)."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from crucible.errors import BadSetting
from crucible.images.oci.addresses import Url, is_loopback

_MAX_ANSWER_BYTES = 16 << 10
_DEFAULT_PORT = 8080


class ProxyRefused(Exception):
    """The proxy would not let us through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    host: str
    port: int
    authorization: str = field(default="", repr=False)


def proxy_for(url: Url) -> Proxy | None:
    """This host itself is never asked for through a proxy."""
    if is_loopback(url.host):
        return None
    named = getproxies_environment()
    address = named.get(url.scheme) or named.get("all")
    if not address or proxy_bypass_environment(f"{url.host}:{url.port}", named):
        return None
    return _parse(address if "://" in address else f"http://{address}")


def open_tunnel(
    connection: socket.socket, proxy: Proxy, url: Url, wait: Callable[[], float]
) -> None:
    """Asks the proxy to join us to the server; from then on the bytes are the server's.

    `wait` says how long the next read may take.
    """
    place = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    connection.sendall("\r\n".join((*lines, "", "")).encode("ascii"))
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        # Byte by byte: what follows the blank line is not the proxy's any more.
        connection.settimeout(wait())
        byte = connection.recv(1)
        if not byte or len(answer) >= _MAX_ANSWER_BYTES:
            raise ProxyRefused(
                f"the proxy {proxy.host}:{proxy.port} gave no answer that makes sense"
            )
        answer += byte
    words = answer.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or words[1] != b"200":
        status = words[1][:3].decode("ascii", "replace") if len(words) > 1 else "nothing"
        raise ProxyRefused(f"the proxy {proxy.host}:{proxy.port} answered {status}")


def _parse(address: str) -> Proxy:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme != "http" or not host:
        raise BadSetting(
            "The proxy variables of the environment name a proxy that is not spoken to in HTTP",
            hint="Set https_proxy to http://HOST:PORT, or no_proxy for this registry",
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        authorization = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return Proxy(
        host=host, port=_DEFAULT_PORT if port is None else port, authorization=authorization
    )
