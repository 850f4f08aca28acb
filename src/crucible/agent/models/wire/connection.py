"""HTTP to a provider: how long is waited for which byte, and how much is read at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from crucible.agent.models.access import Access, Waits

# No answer of a model is as long.
_LONGEST_ANSWER = 64 << 20


class Client(httpx2.AsyncClient):
    """Waits longer for the first byte than for the next ones: models think before they speak."""

    def __init__(self, access: Access, waits: Waits) -> None:
        self._waits = waits
        timeout = httpx2.Timeout(
            connect=waits.connect_s,
            read=waits.first_byte_s,
            write=waits.between_bytes_s,
            pool=waits.first_byte_s,
        )
        if access.socket is None:
            super().__init__(timeout=timeout, follow_redirects=False)
        else:
            transport = httpx2.AsyncHTTPTransport(uds=str(access.socket))
            super().__init__(timeout=timeout, transport=transport, trust_env=False)

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        options["follow_redirects"] = False
        response = await super().send(request, stream=True, **options)
        response.stream = _Watched(response.stream, request, self._waits)
        if not stream:
            await response.aread()
            await response.aclose()
        return response


class _Watched(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, request: httpx2.Request, waits: Waits) -> None:
        self._stream = stream
        self._request = request
        self._waits = waits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._stream)
        seen, limit = 0, self._waits.first_byte_s
        while True:
            try:
                async with asyncio.timeout(limit):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise httpx2.ReadTimeout(
                    f"no byte came for {limit:g} s", request=self._request
                ) from None
            seen += len(chunk)
            if seen > _LONGEST_ANSWER:
                raise httpx2.ReadError(
                    f"the answer is longer than {_LONGEST_ANSWER >> 20} MiB", request=self._request
                )
            limit = self._waits.between_bytes_s
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
