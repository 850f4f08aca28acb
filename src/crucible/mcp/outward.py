"""HTTP to servers that are not trusted: what they answer is bounded, and some are reached on the public network alone.

Of those the name is looked up here, all its addresses are judged, and those are dialled: between look and dial nobody
can give another answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from crucible.errors import AddressRefused, McpFailed
from crucible.network.addresses import Kind, disguises, kind_of, parse_address

LONGEST_ANSWER = 16 << 20
_LOOKUP_S = 20.0


async def public_addresses(host: str, port: int) -> list[str]:
    """To dial one after the other. Raises AddressRefused, and OSError for a name that has none."""
    async with asyncio.timeout(_LOOKUP_S):
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for text in addresses:
        address = parse_address(text)
        if address is None or any(kind_of(one) is not Kind.PUBLIC for one in disguises(address)):
            raise AddressRefused(host)
    return addresses


class PublicOnly(httpx2.AsyncBaseTransport):
    """Each request, also one that follows a redirect, is sent where its host was found to be."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            addresses = await public_addresses(url.host, port)
        except (OSError, TimeoutError) as error:
            raise McpFailed(self._name, f"{url.host} was not found: {error!s:.200}") from None
        # The certificate is still that of the name; the field Host was written before.
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        for address in addresses[:-1]:
            request.url = url.copy_with(host=address)
            with contextlib.suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._inner.handle_async_request(request)
        request.url = url.copy_with(host=addresses[-1])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(headers: dict[str, str], timeout_s: float, name: str) -> Any:
    return httpx2.AsyncClient(
        headers=headers,
        timeout=timeout_s,
        transport=PublicOnly(name),
        trust_env=False,
        event_hooks=bounds(name),
    )


def bounds(name: str) -> dict[str, list[Any]]:
    """Of an answer no more is read than this, and nothing that grows when it is unpacked."""

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise McpFailed(name, "it sent a compressed answer, which nobody asked for")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, name)

    return {"response": [bound]}


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, name: str) -> None:
        self._inner = inner
        self._name = name

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST_ANSWER
        async for data in self._inner:
            left -= len(data)
            if left < 0:
                size = f"{LONGEST_ANSWER >> 20} MiB"
                raise McpFailed(self._name, f"it sent an answer of more than {size}")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
