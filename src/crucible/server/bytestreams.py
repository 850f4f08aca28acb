"""Bodies that are bytes and not JSON, in both directions and of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from starlette.responses import StreamingResponse

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
