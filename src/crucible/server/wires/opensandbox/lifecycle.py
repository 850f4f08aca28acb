"""The life of a sandbox over this wire: made, looked at, kept for longer, paused, ended, and where its execd is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from crucible.errors import Unsupported
from crucible.sandbox.expiry import live_until
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import sandboxes_of
from crucible.server.creating import create_sandbox
from crucible.server.models import sandboxes as own
from crucible.server.models.base import Name
from crucible.server.routes import sandboxes as routes
from crucible.server.wires.moments import moment
from crucible.server.wires.opensandbox.answers import KEY_HEADER, given_key
from crucible.server.wires.opensandbox.models import (
    Created,
    Endpoint,
    NewSandbox,
    Renewal,
    Renewed,
    Sandbox,
    Sandboxes,
    state_of,
)

router = APIRouter(prefix="/v1")

EXECD_PORT = 44772
EGRESS_PORT = 18080

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=200)]
States = Annotated[list[str] | None, Query(max_length=20)]
PortNumber = Annotated[int, Path(ge=1, le=65535)]


@router.post(
    "/sandboxes", status_code=202, dependencies=[MAY_RUN], response_model_exclude_none=True
)
async def create(asked: NewSandbox, domain: TheDomain, caller: TheCaller) -> Created:
    """It runs when this answers. Its id is its name among ours."""
    wanted = own.NewSandbox(settings=asked.as_settings())
    return Created.of(await create_sandbox(domain, caller, wanted))


@router.get("/sandboxes", dependencies=[MAY_READ], response_model_exclude_none=True)
async def list_all(
    domain: TheDomain,
    caller: TheCaller,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    state: States = None,
    metadata: str | None = None,
) -> Sandboxes:
    if metadata:
        raise Unsupported("Sandboxes have no metadata to be found by", hint="Leave metadata out")
    records = [
        record
        for record in sandboxes_of(domain, caller)
        if not record.is_temporary and (not state or state_of(record) in state)
    ]
    return Sandboxes.of(records, page, page_size)


@router.get("/sandboxes/{name}", dependencies=[MAY_READ], response_model_exclude_none=True)
async def get(name: Name, domain: TheDomain) -> Sandbox:
    return Sandbox.of(domain.manager.records.find(name))


@router.delete("/sandboxes/{name}", status_code=204, dependencies=[MAY_RUN])
async def kill(name: Name, domain: TheDomain) -> None:
    await routes.remove(name, domain, force=True)


@router.post("/sandboxes/{name}/pause", status_code=202, dependencies=[MAY_RUN])
async def pause(name: Name, domain: TheDomain) -> None:
    await domain.manager.pause(name)


@router.post("/sandboxes/{name}/resume", status_code=202, dependencies=[MAY_RUN])
async def resume(name: Name, domain: TheDomain) -> None:
    await routes.resume(name, domain)


@router.post("/sandboxes/{name}/renew-expiration", dependencies=[MAY_RUN])
async def renew(name: Name, asked: Renewal, domain: TheDomain) -> Renewed:
    end = asked.expires_at.timestamp()
    await live_until(domain.manager, name, lambda _: end)
    return Renewed(expires_at=moment(end))


@router.get("/sandboxes/{name}/endpoints/{port}", dependencies=[MAY_READ])
async def endpoint(name: Name, port: PortNumber, domain: TheDomain, request: Request) -> Endpoint:
    """execd is served here, by us, and asks for the caller's key; other ports are where they are published."""
    held = domain.manager.running(name)
    if port in (EXECD_PORT, EGRESS_PORT):
        key = given_key(request)
        kind = "execd" if port == EXECD_PORT else "egress"
        place = f"{request.headers['host']}{request.scope['root_path']}/sandboxes/{name}/{kind}"
        return Endpoint(endpoint=place, headers={KEY_HEADER: key} if key else {})
    for one in held.doors.ports:
        if one.guest == port:
            return Endpoint(endpoint=f"{one.address}:{one.host}", headers={})
    raise Unsupported(
        f"Port {port} of the sandbox is not published",
        hint=f"Reach it with `crucible ports {name} {port}`",
    )
