"""Sandboxes that live as long as a caller is there: a program that is killed leaves none of them behind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from crucible.errors import CrucibleError, SandboxMissing
from crucible.sandbox.finishing import finish
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import LARGEST_TIMEOUT_S
from crucible.server.auth import MAY_RUN, TheDomain
from crucible.server.domain import Domain
from crucible.server.leases import renew
from crucible.server.models.base import Name
from crucible.server.models.sandboxes import Sandbox
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream, event
from crucible.server.tokens import forget_sandbox

router = APIRouter(prefix=PREFIX, tags=["sandboxes"])

_LOOK_EVERY_S = 0.5
_RENEWALS = 4

Lease = Annotated[float, Query(ge=4, le=3600)]
Lifetime = Annotated[float, Query(ge=0, le=LARGEST_TIMEOUT_S)]


@router.post(
    "/sandboxes/{name}/hold",
    dependencies=[MAY_RUN],
    operation_id="holdSandbox",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def hold(
    name: Name, domain: TheDomain, request: Request, lease_s: Lease = 60.0, ttl_s: Lifetime = 0.0
) -> EventStream:
    """The sandbox lives while this answer goes on, and is removed when its caller leaves.

    If this server leaves or dies first, it lives `lease_s` longer: time to hold it anew. In any case it is
    removed `ttl_s` after it was made, if that is given.
    """
    record = domain.manager.find(name)
    record = await renew(domain, record, lease_s, ttl_s)
    return EventStream(
        _held(domain, record, request.state.request_id, lease_s, ttl_s),
        left=lambda: finish(_remove(domain, record)),
    )


async def _held(
    domain: Domain, record: SandboxRecord, request_id: str, lease_s: float, ttl_s: float
) -> AsyncGenerator[bytes, None]:
    yield event("held", Sandbox.of(record).model_dump(mode="json"))
    renewed = time.monotonic()
    try:
        while domain.is_ready:
            await asyncio.sleep(_LOOK_EVERY_S)
            if domain.manager.records.find(record.name).id != record.id:
                raise SandboxMissing(record.name)
            if time.monotonic() - renewed > lease_s / _RENEWALS:
                await renew(domain, record, lease_s, ttl_s)
                renewed = time.monotonic()
        yield event("leaving", {})
    except CrucibleError as error:
        yield event("error", fields_of(error, request_id))


async def _remove(domain: Domain, record: SandboxRecord) -> None:
    """Not another one that has its name by now."""
    with contextlib.suppress(SandboxMissing):
        if domain.manager.find(record.name).id == record.id:
            await domain.manager.remove(record.name, force=True)
            forget_sandbox(domain.store, record.id)
