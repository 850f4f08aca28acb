"""Sandboxes: made, listed, started, stopped, paused, removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import sandboxes_of
from crucible.server.creating import create_sandbox, labelled, start_sandbox
from crucible.server.leases import renew
from crucible.server.models.base import Name, Page
from crucible.server.models.sandboxes import NewSandbox, Sandbox
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX
from crucible.server.tokens import forget_sandbox

router = APIRouter(prefix=PREFIX, tags=["sandboxes"], route_class=OnceRoute)

Grace = Annotated[float, Query(ge=0, le=3600)]


@router.post(
    "/sandboxes", status_code=201, dependencies=[MAY_RUN, IDEMPOTENT], operation_id="createSandbox"
)
async def create(asked: NewSandbox, domain: TheDomain, caller: TheCaller) -> Sandbox:
    record = await create_sandbox(domain, caller, asked)
    if asked.lease_s is not None:
        record = await renew(domain, record, asked.lease_s, record.spec.ttl_s)
    _, notices = await labelled(domain, asked.settings)
    return Sandbox.of(record, notices)


@router.get("/sandboxes", dependencies=[MAY_READ], operation_id="listSandboxes")
async def list_all(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[Sandbox]:
    records = [record for record in sandboxes_of(domain, caller) if not record.is_temporary]
    return page(records, key=lambda one: one.name, show=Sandbox.of, limit=limit, cursor=cursor)


@router.get("/sandboxes/{name}", dependencies=[MAY_READ], operation_id="getSandbox")
async def get(name: Name, domain: TheDomain) -> Sandbox:
    return Sandbox.of(domain.manager.records.find(name))


@router.delete(
    "/sandboxes/{name}", status_code=204, dependencies=[MAY_RUN], operation_id="removeSandbox"
)
async def remove(name: Name, domain: TheDomain, force: bool = False) -> None:
    """One that runs needs `force`. What its tokens were good for is gone with it."""
    record = domain.manager.find(name)
    await domain.manager.remove(name, force=force)
    forget_sandbox(domain.store, record.id)


@router.post("/sandboxes/{name}/start", dependencies=[MAY_RUN], operation_id="startSandbox")
async def start(name: Name, domain: TheDomain) -> Sandbox:
    """Of one that runs already nothing is changed."""
    return Sandbox.of(await start_sandbox(domain, name))


@router.post("/sandboxes/{name}/stop", dependencies=[MAY_RUN], operation_id="stopSandbox")
async def stop(name: Name, domain: TheDomain, grace_s: Grace = 5.0) -> Sandbox:
    return Sandbox.of(await domain.manager.stop(name, grace_s=grace_s))


@router.post("/sandboxes/{name}/pause", dependencies=[MAY_RUN], operation_id="pauseSandbox")
async def pause(name: Name, domain: TheDomain) -> Sandbox:
    return Sandbox.of(await domain.manager.pause(name))


@router.post("/sandboxes/{name}/resume", dependencies=[MAY_RUN], operation_id="resumeSandbox")
async def resume(name: Name, domain: TheDomain) -> Sandbox:
    record = await domain.manager.resume(name)
    held = domain.manager.held.get(record.id)
    if held is not None:
        await domain.executions.wake(held)
    return Sandbox.of(record)
