"""TLS over any ByteStream, as either side. It needs nothing of asyncio's own TLS."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Mapping
from typing import Final

from crucible.network.outlet import ByteStream

HANDSHAKE_S: Final = 30.0
CHUNK: Final = 1 << 16


class TlsStream:
    """A ByteStream within another. Errors of TLS come as OSError (ssl.SSLError is one)."""

    def __init__(
        self, inner: ByteStream, context: ssl.SSLContext, *, server_name: str | None
    ) -> None:
        self._inner = inner
        self._arriving = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._arriving,
            self._leaving,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._sending = asyncio.Lock()

    async def shake_hands(self) -> str:
        """Returns the protocol that both agreed upon (ALPN), or ""."""
        async with asyncio.timeout(HANDSHAKE_S):
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await self._flush()
                    await self._fetch()
                except ssl.SSLError:
                    with contextlib.suppress(OSError):
                        await self._flush()
                    raise
            await self._flush()
        return self._tls.selected_alpn_protocol() or ""

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fetch()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        await self._flush()

    async def close_write(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await self.close_write()
        await self._inner.close()

    async def abort(self) -> None:
        await self._inner.abort()

    async def _fetch(self) -> None:
        data = await self._inner.read()
        if data:
            self._arriving.write(data)
        else:
            self._arriving.write_eof()

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._leaving.read():
                await self._inner.write(data)


def client_context(environment: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Verifies servers as the programs of this host do: by its own authorities, and by those it was told of."""
    values = os.environ if environment is None else environment
    context = ssl.create_default_context()
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if bundle := values.get(variable):
            with contextlib.suppress(OSError):
                context.load_verify_locations(cafile=bundle)
    return context
