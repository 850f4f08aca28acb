"""What a sandbox uses, what it wrote, and what it changed in the directory it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from crucible.sandbox.doors.events import network_logs
from crucible.sandbox.holding import CONSOLE_NAME
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.session import Channel
from crucible.server.auth import MAY_READ, TheDomain
from crucible.server.bytestreams import bytes_out, streamed
from crucible.server.changes import find_changes, patch_of
from crucible.server.domain import Domain
from crucible.server.models.base import Name, Told
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["figures"])

Source = Annotated[
    Literal["output", "console", "network"],
    Query(description="What commands wrote, what the kernel wrote, or what the network decided"),
]
Target = Annotated[
    str, Query(max_length=4096, description="Of a writable mount; else the workspace")
]
TEXT = "text/plain; charset=utf-8"
PATCH = "text/x-diff"


class Figures(Told):
    uptime_s: float
    cpu_s: float
    memory_total: int
    memory_available: int
    memory_user: int
    memory_peak: int
    disk_total: int
    disk_free: int
    inodes_free: int
    processes: int
    oom_kills: int


class Change(Told):
    path: str
    change: str


@router.get("/sandboxes/{name}/stats", dependencies=[MAY_READ], operation_id="getStats")
async def stats(name: Name, domain: TheDomain) -> Figures:
    held = domain.manager.running(name)
    return Figures(**asdict(await held.machine.stats()))


@router.get(
    "/sandboxes/{name}/logs",
    dependencies=[MAY_READ],
    operation_id="getLogs",
    response_class=StreamingResponse,
    responses=bytes_out(TEXT),
)
async def logs(name: Name, domain: TheDomain, source: Source = "output") -> StreamingResponse:
    """As far as it is kept, the oldest first. GET …/commands tells the commands apart."""
    record = domain.manager.records.find(name)
    return await streamed(_told(domain, record, source), TEXT)


@router.get("/sandboxes/{name}/changes", dependencies=[MAY_READ], operation_id="listChanges")
async def changes(name: Name, domain: TheDomain, target: Target = "") -> list[Change]:
    """What differs from the directory that was copied in."""
    found = await find_changes(domain.manager, name, target)
    return [
        Change(path=change.name.decode(errors="replace"), change=str(change.kind))
        for change in found.changes.all
    ]


@router.get(
    "/sandboxes/{name}/changes/patch",
    dependencies=[MAY_READ],
    operation_id="getPatch",
    response_class=StreamingResponse,
    responses=bytes_out(PATCH),
)
async def patch(name: Name, domain: TheDomain, target: Target = "") -> StreamingResponse:
    """The same as a diff that `patch` and `git apply` take. Nothing is written on the server's machine."""
    found = await find_changes(domain.manager, name, target)
    return await streamed(patch_of(found), PATCH)


async def _told(domain: Domain, record: SandboxRecord, source: str) -> AsyncIterator[bytes]:
    if source == "network":
        for path in network_logs(record.directory):
            yield await asyncio.to_thread(path.read_bytes)
    elif source == "console":
        held = domain.manager.held.get(record.id)
        path = record.directory / CONSOLE_NAME
        if held is not None:
            yield await held.machine.console()
        elif path.exists():
            yield path.read_bytes()
    else:
        for piece in OutputLog(record.directory).pieces():
            if piece.channel is not Channel.INPUT and piece.data:
                yield piece.data
