"""Bodies that are bytes and not JSON, in both directions and of any size."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import StreamingResponse

from crucible.errors import HostDiskFull

MOST_BYTES = 1 << 40
BINARY = {"schema": {"type": "string", "format": "binary"}}
BYTES_IN: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}
}
TAR_IN: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/x-tar": BINARY}}
}


def bytes_out(media_type: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {media_type: BINARY}, "description": "The bytes, as they are"}}


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes, whatever its size: it is passed on, not kept."""
    request.state.most_bytes = MOST_BYTES
    async for data in request.stream():
        if data:
            yield data


async def save_body(request: Request, path: Path, most_bytes: int) -> None:
    """Raises RequestTooLarge, or HostDiskFull where the host has no room for it."""
    request.state.most_bytes = most_bytes
    try:
        with path.open("wb") as file:
            async for data in request.stream():
                file.write(data)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise HostDiskFull(str(path.parent)) from error
        raise


async def streamed(
    data: AsyncIterator[bytes], media_type: str, name: str = ""
) -> StreamingResponse:
    """An error before the first byte is still told as one."""
    first = await anext(data, None)

    async def rest() -> AsyncIterator[bytes]:
        try:
            if first is not None:
                yield first
                async for piece in data:
                    yield piece
        finally:
            close = getattr(data, "aclose", None)
            if close is not None:
                await close()

    headers = {"Content-Disposition": f'attachment; filename="{name}"'} if name else None
    return StreamingResponse(rest(), media_type=media_type, headers=headers)
