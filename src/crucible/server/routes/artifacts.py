"""What the tools of a conversation handed over: listed, shown in frames, downloaded, all as a zip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from crucible.agent.facts import ArtifactFacts
from crucible.conversations.zipping import ZipEntry, zipped
from crucible.errors import ArtifactErased
from crucible.server.auth import MAY_READ, TheDomain
from crucible.server.belonging import OWN_CONVERSATION
from crucible.server.bytestreams import bytes_out, streamed
from crucible.server.frames import headers_for, with_own_plotly
from crucible.server.models.conversations import ArtifactList, ArtifactTold
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id

if TYPE_CHECKING:
    from crucible.agent.engine import Engine

router = APIRouter(prefix=f"{PREFIX}/conversations", tags=["artifacts"])

OCTETS = "application/octet-stream"
ZIP = "application/zip"
Blob = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@router.get(
    "/{id}/artifacts", dependencies=[MAY_READ, OWN_CONVERSATION], operation_id="listArtifacts"
)
async def list_all(id: Id, domain: TheDomain) -> ArtifactList:
    """The oldest first."""
    found = await (await domain.engine.get()).artifacts(id)
    return ArtifactList(items=[ArtifactTold.of(one) for one in found])


@router.get(
    "/{id}/artifacts/{blob}",
    dependencies=[MAY_READ, OWN_CONVERSATION],
    operation_id="getArtifact",
    response_class=Response,
    responses=bytes_out(OCTETS),
)
async def get(
    id: Id,
    blob: Blob,
    domain: TheDomain,
    request: Request,
    download: Annotated[bool, Query(description="To be saved, and not shown")] = False,
) -> Response:
    """Its bytes, for a frame: the answer's own policy lets it reach nothing."""
    facts, data = await (await domain.engine.get()).artifact(id, blob)
    if not download:
        data = await asyncio.to_thread(with_own_plotly, facts.media_type, data)
    headers = headers_for(
        request, name=facts.name, media_type=facts.media_type, is_download=download
    )
    return Response(data, headers=headers)


@router.get(
    "/{id}/artifacts.zip",
    dependencies=[MAY_READ, OWN_CONVERSATION],
    operation_id="getArtifactsZip",
    response_class=StreamingResponse,
    responses=bytes_out(ZIP),
)
async def as_zip(id: Id, domain: TheDomain) -> StreamingResponse:
    """All that were not erased."""
    engine = await domain.engine.get()
    found = await engine.artifacts(id)
    return await streamed(zipped(_entries(engine, id, found)), ZIP, "artifacts.zip")


async def _entries(
    engine: Engine, id: str, found: tuple[ArtifactFacts, ...]
) -> AsyncIterator[ZipEntry]:
    for facts in found:
        try:
            _, data = await engine.artifact(id, facts.blob)
        except ArtifactErased:
            continue
        # One that comes from a sandbox has a name, and no place.
        yield ZipEntry(name=facts.name.replace("/", "_"), data=_whole(data))


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data
