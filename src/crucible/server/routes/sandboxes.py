"""Sandboxes: made, listed, started, stopped, paused, removed."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Query

from crucible.errors import Forbidden
from crucible.sandbox.finishing import finish
from crucible.sandbox.mounts import parse_mount
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import SandboxSpec
from crucible.server.auth import MAY_READ, MAY_RUN, Caller, TheCaller, TheDomain
from crucible.server.domain import Domain
from crucible.server.models.base import Name, Page
from crucible.server.models.sandboxes import NewSandbox, Sandbox
from crucible.server.paging import Cursor, Limit, page
from crucible.server.tokens import Scope, forget_sandbox

router = APIRouter(tags=["sandboxes"])

Grace = Annotated[float, Query(ge=0, le=3600)]


@router.post("/sandboxes", status_code=201, dependencies=[MAY_RUN], operation_id="createSandbox")
async def create(asked: NewSandbox, domain: TheDomain, caller: TheCaller) -> Sandbox:
    spec = asked.settings.as_spec()
    check_spec(caller, spec)
    name = asked.name or f"sb-{secrets.token_hex(5)}"
    record = await domain.manager.create(name, spec)
    if asked.start:
        record = await _start_new(domain, record)
    return Sandbox.of(record)


@router.get("/sandboxes", dependencies=[MAY_READ], operation_id="listSandboxes")
async def list_all(domain: TheDomain, limit: Limit = 100, cursor: Cursor = None) -> Page[Sandbox]:
    records = [record for record in domain.manager.records.sandboxes() if not record.is_temporary]
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
    return Sandbox.of(await domain.manager.start(name))


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


def check_spec(caller: Caller, spec: SandboxSpec) -> None:
    """What is copied from the host is read with the rights of who runs this server: that is not for everybody."""
    takes_files = any(not parse_mount(text).is_volume for text in spec.mounts)
    if (takes_files or spec.include_credentials) and not caller.scope.includes(Scope.ADMIN):
        raise Forbidden("To copy files of the host into a sandbox needs a token with scope 'admin'")


async def _start_new(domain: Domain, record: SandboxRecord) -> SandboxRecord:
    """One that cannot be started was never made."""
    try:
        return await domain.manager.start(record.name)
    except BaseException:
        await finish(domain.manager.remove(record.name, force=True))
        raise
