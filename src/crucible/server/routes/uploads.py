"""Files for a conversation: taken in here, put into the sandbox's workspace by a turn, never handed out again."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from crucible.errors import RequestTooSlow
from crucible.server.auth import MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import conversations_of
from crucible.server.bytestreams import BINARY
from crucible.server.models.conversations import UploadTold
from crucible.server.routes import PREFIX
from crucible.server.upload_bodies import FileBody

router = APIRouter(prefix=PREFIX, tags=["uploads"])

LONGEST_S = 3600.0
UploadPath = Annotated[str, Path(pattern=r"^up-[0-9a-f]{32}$")]
_FILE_IN: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": BINARY["schema"]},
                }
            }
        },
    }
}


@router.post(
    "/upload",
    status_code=201,
    dependencies=[MAY_RUN],
    operation_id="upload",
    openapi_extra=_FILE_IN,
)
async def upload(domain: TheDomain, caller: TheCaller, request: Request) -> UploadTold:
    """One file. Its type is what its bytes look like; one that no turn uses is gone after a day."""
    uploads = conversations_of(await domain.engine.get()).uploads
    try:
        async with asyncio.timeout(LONGEST_S):
            body = FileBody(request, most_bytes=uploads.limits.file_bytes)
            name = await body.open()
            return UploadTold.of(await uploads.take_in(caller.user, name, body.pieces()))
    except TimeoutError:
        raise RequestTooSlow(LONGEST_S) from None


@router.delete("/upload/{id}", status_code=204, dependencies=[MAY_RUN], operation_id="removeUpload")
async def remove(id: UploadPath, domain: TheDomain, caller: TheCaller) -> None:
    """What a turn has put into a sandbox stays there."""
    await conversations_of(await domain.engine.get()).uploads.remove(id, caller.user)
