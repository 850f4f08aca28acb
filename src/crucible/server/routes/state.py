"""Live state: snapshots of running sandboxes, sandboxes made of them, copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from crucible.sandbox.scratch import scratch_directory
from crucible.server.auth import MAY_ADMINISTER, MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import snapshots_of
from crucible.server.bytestreams import BYTES_IN, body_of, bytes_out, streamed
from crucible.server.creating import new_name
from crucible.server.domain import Domain
from crucible.server.leases import give_lifetime
from crucible.server.models.base import Name, Page
from crucible.server.models.sandboxes import Sandbox
from crucible.server.models.state import Fork, NewSnapshot, Restore, Snapshot
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["live state"], route_class=OnceRoute)

OCTETS = "application/octet-stream"
_CHUNK = 1 << 20
Tag = Annotated[Name, Query()]


@router.post(
    "/sandboxes/{name}/snapshots",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="takeSnapshot",
)
async def take(name: Name, asked: NewSnapshot, domain: TheDomain) -> Snapshot:
    """Memory, processes and disk of one moment; the sandbox goes on."""
    return Snapshot.of(await domain.snapshots.take(name, asked.tag))


@router.get("/snapshots", dependencies=[MAY_READ], operation_id="listSnapshots")
async def list_all(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[Snapshot]:
    saved = snapshots_of(domain, caller)
    return page(saved, key=lambda one: one.tag, show=Snapshot.of, limit=limit, cursor=cursor)


@router.get("/snapshots/{tag}", dependencies=[MAY_READ], operation_id="getSnapshot")
async def get(tag: Name, domain: TheDomain) -> Snapshot:
    return Snapshot.of(domain.manager.records.find_snapshot(tag))


@router.delete(
    "/snapshots/{tag}", status_code=204, dependencies=[MAY_RUN], operation_id="removeSnapshot"
)
async def remove(tag: Name, domain: TheDomain) -> None:
    await domain.snapshots.remove(tag)


@router.post(
    "/snapshots/{tag}/restore",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="restoreSnapshot",
)
async def restore(tag: Name, asked: Restore, domain: TheDomain) -> Sandbox:
    """A new sandbox that goes on where the snapshot was taken."""
    held = await domain.snapshots.restore(tag, asked.name or new_name())
    await domain.executions.take_over(held)
    return Sandbox.of(await give_lifetime(domain, held.record, asked.ttl_s))


@router.get(
    "/snapshots/{tag}/export",
    dependencies=[MAY_ADMINISTER],
    operation_id="exportSnapshot",
    response_class=StreamingResponse,
    responses=bytes_out(OCTETS),
)
async def export(tag: Name, domain: TheDomain) -> StreamingResponse:
    """One file with the digest of every part. It holds the sandbox's memory, and whatever was in that."""
    return await streamed(_packed(domain, tag), OCTETS, f"{tag}.snapshot")


@router.post(
    "/snapshots",
    status_code=201,
    dependencies=[MAY_ADMINISTER],
    operation_id="importSnapshot",
    openapi_extra=BYTES_IN,
)
async def take_in(tag: Tag, domain: TheDomain, caller: TheCaller, request: Request) -> Snapshot:
    """A file of `export`; every byte is checked."""
    with scratch_directory(domain.manager.config.home, "import") as scratch:
        path = scratch / "snapshot"
        with path.open("wb") as file:
            async for data in body_of(request):
                file.write(data)
        return Snapshot.of(await domain.snapshots.take_in(path, tag, owner=caller.user))


@router.post(
    "/sandboxes/{name}/fork",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="forkSandbox",
)
async def fork(name: Name, asked: Fork, domain: TheDomain) -> list[Sandbox]:
    """Running copies of a running sandbox; all of them or none."""
    copies = await domain.snapshots.fork(name, asked.names)
    for copy in copies:
        await domain.executions.take_over(copy)
    return [Sandbox.of(await give_lifetime(domain, copy.record, asked.ttl_s)) for copy in copies]


async def _packed(domain: Domain, tag: str) -> AsyncIterator[bytes]:
    async with AsyncExitStack() as stack:
        home = domain.manager.config.home
        path = stack.enter_context(scratch_directory(home, "export")) / "snapshot"
        await domain.snapshots.export(tag, path)
        file = stack.enter_context(path.open("rb"))
        while data := await asyncio.to_thread(file.read, _CHUNK):
            yield data
