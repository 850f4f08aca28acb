"""The server itself: what it is, what it can give, what happened on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from crucible.errors import BadRequest
from crucible.sandbox import admission
from crucible.sandbox.profiles import PROFILES
from crucible.sandbox.spec import (
    LARGEST_CPUS,
    LARGEST_DISK_MIB,
    LARGEST_OUTPUT_MIB,
    LARGEST_TIMEOUT_S,
    MEMORY_TIERS_MIB,
    MOST_PROCESSES,
)
from crucible.server.auth import MAY_READ, TheCaller, TheDomain
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.models.base import Told
from crucible.server.paging import LARGEST_PAGE
from crucible.server.passage import MOST_BODY_BYTES
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream, event

router = APIRouter(prefix=PREFIX, tags=["system"])

_LOOK_EVERY_S = 0.5
_LARGEST = (1 << 62) - 1


class Version(Told):
    version: str
    api: str = "v1"


class Limits(Told):
    """What can be asked for at most, and what there is now."""

    memory_tiers_mib: list[int]
    memory_available_mib: int
    cpus: int
    disk_mib: int
    timeout_s: float
    processes: int
    output_mib: int
    body_bytes: int
    page_items: int
    profiles: list[str]


class Happening(Told):
    """A command that was run (`run`, `exec`), or what became of a sandbox.

    That is `create`, `start`, `stop`, `pause`, `resume`, `remove`, `end` when it ended by itself, `expire` when a limit
    of its own ended it.
    """

    number: int
    at: float
    who: str
    verb: str
    sandbox: str
    detail: dict[str, Any]


class Happenings(Told):
    items: list[Happening]
    last: int = Field(description="Give this as `after` for what comes next")


@router.get("/version", dependencies=[MAY_READ], operation_id="getVersion")
async def get_version() -> Version:
    return Version(version=version("crucible"))


@router.get("/limits", dependencies=[MAY_READ], operation_id="getLimits")
async def limits() -> Limits:
    return Limits(
        memory_tiers_mib=list(MEMORY_TIERS_MIB),
        memory_available_mib=admission.available_mib(),
        cpus=LARGEST_CPUS,
        disk_mib=LARGEST_DISK_MIB,
        timeout_s=LARGEST_TIMEOUT_S,
        processes=MOST_PROCESSES,
        output_mib=LARGEST_OUTPUT_MIB,
        body_bytes=MOST_BODY_BYTES,
        page_items=LARGEST_PAGE,
        profiles=list(PROFILES),
    )


@router.get("/events", dependencies=[MAY_READ], operation_id="listEvents")
async def events(
    domain: TheDomain,
    caller: TheCaller,
    after: Annotated[int, Query(ge=0, le=_LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 100,
) -> Happenings:
    lines = domain.manager.records.audit_after(after, limit, owner=caller.only)
    found = [Happening(**line) for line in lines]
    return Happenings(items=found, last=found[-1].number if found else after)


@router.get(
    "/events/stream",
    dependencies=[MAY_READ],
    operation_id="followEvents",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def follow_events(
    domain: TheDomain,
    caller: TheCaller,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)] = None,
) -> EventStream:
    """What happens from now on, or from the event after `Last-Event-ID` on."""
    if last_event_id is None:
        newest = domain.manager.records.audit(1)
        return EventStream(_happening(domain, caller, newest[0]["number"] if newest else 0))
    if not (last_event_id.isascii() and last_event_id.isdecimal()) or int(last_event_id) > _LARGEST:
        raise BadRequest("Last-Event-ID is not the number of an event")
    return EventStream(_happening(domain, caller, int(last_event_id)))


async def _happening(domain: Domain, caller: Caller, after: int) -> AsyncGenerator[bytes, None]:
    """What this process does is told at once; what another one did, a `run` without us, when we look."""
    records = domain.manager.records
    woken = asyncio.Event()
    records.listeners.add(woken.set)
    try:
        while domain.is_ready:
            woken.clear()
            for line in records.audit_after(after, LARGEST_PAGE, owner=caller.only):
                after = line["number"]
                yield event(line["verb"], Happening(**line).model_dump(), str(after))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await woken.wait()
    finally:
        records.listeners.discard(woken.set)
