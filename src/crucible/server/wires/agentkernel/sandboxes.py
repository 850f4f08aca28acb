"""Sandboxes over this wire: made, listed, looked at, started, stopped, kept for longer, removed."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from crucible.errors import BadSetting, SandboxMissing, Unsupported
from crucible.sandbox.expiry import expires_at, live_until
from crucible.sandbox.spec import parse_duration_s
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import sandboxes_of
from crucible.server.creating import create_sandbox, start_sandbox
from crucible.server.models import sandboxes as own
from crucible.server.models.base import Name
from crucible.server.routes import sandboxes as routes
from crucible.server.wires.agentkernel.envelope import Envelope, told
from crucible.server.wires.agentkernel.models import Expiry, Extension, NewSandbox, SandboxInfo
from crucible.server.wires.moments import moment

router = APIRouter()

MOST_LINES = 1000


@router.get("/sandboxes", dependencies=[MAY_READ])
async def list_all(
    domain: TheDomain, caller: TheCaller, label: str | None = None
) -> Envelope[list[SandboxInfo]]:
    if label is not None:
        raise Unsupported("Sandboxes have no labels to be found by", hint="Leave label out")
    records = sandboxes_of(domain, caller)
    return told([SandboxInfo.of(record) for record in records if not record.is_temporary])


@router.post("/sandboxes", status_code=201, dependencies=[MAY_RUN])
async def create(asked: NewSandbox, domain: TheDomain, caller: TheCaller) -> Envelope[SandboxInfo]:
    wanted = own.NewSandbox(name=asked.name, settings=asked.as_settings())
    return told(SandboxInfo.of(await create_sandbox(domain, caller, wanted)))


@router.get("/sandboxes/by-uuid/{uuid}", dependencies=[MAY_READ])
async def get_by_uuid(uuid: str, domain: TheDomain, caller: TheCaller) -> Envelope[SandboxInfo]:
    for record in sandboxes_of(domain, caller):
        if record.id == uuid and not record.is_temporary:
            return told(SandboxInfo.of(record))
    raise SandboxMissing(uuid[:64])


@router.get("/sandboxes/{name}", dependencies=[MAY_READ])
async def get(name: Name, domain: TheDomain) -> Envelope[SandboxInfo]:
    return told(SandboxInfo.of(domain.manager.records.find(name)))


@router.delete("/sandboxes/{name}", dependencies=[MAY_RUN])
async def remove(name: Name, domain: TheDomain) -> Envelope[str]:
    await routes.remove(name, domain, force=True)
    return told("Sandbox removed")


@router.post("/sandboxes/{name}/start", dependencies=[MAY_RUN])
async def start(name: Name, domain: TheDomain) -> Envelope[SandboxInfo]:
    return told(SandboxInfo.of(await start_sandbox(domain, name)))


@router.post("/sandboxes/{name}/stop", dependencies=[MAY_RUN])
async def stop(name: Name, domain: TheDomain) -> Envelope[SandboxInfo]:
    return told(SandboxInfo.of(await domain.manager.stop(name)))


@router.post("/sandboxes/{name}/pause", dependencies=[MAY_RUN])
async def pause(name: Name, domain: TheDomain) -> Envelope[SandboxInfo]:
    return told(SandboxInfo.of(await domain.manager.pause(name)))


@router.post("/sandboxes/{name}/resume", dependencies=[MAY_RUN])
async def resume(name: Name, domain: TheDomain) -> Envelope[SandboxInfo]:
    await routes.resume(name, domain)
    return told(SandboxInfo.of(domain.manager.records.find(name)))


@router.post("/sandboxes/{name}/extend", dependencies=[MAY_RUN])
async def extend(name: Name, asked: Extension, domain: TheDomain) -> Envelope[Expiry]:
    """From when it would have been removed on, or from now on if it never would have been."""
    seconds = parse_duration_s(asked.by)
    if seconds is None:
        raise BadSetting(f"{asked.by!r} is no time to add", hint="Write it like 30m, 1h or 2d")
    record = await live_until(domain.manager, name, lambda before: before + seconds)
    end = expires_at(record)
    return told(Expiry(expires_at=None if end is None else moment(end)))


@router.get("/sandboxes/{name}/logs", dependencies=[MAY_READ])
async def logs(name: Name, domain: TheDomain) -> Envelope[list[dict[str, Any]]]:
    """The lines of the audit that are about it, the oldest first."""
    record = domain.manager.records.find(name)
    lines = domain.manager.records.audit(MOST_LINES, sandbox=record.name, owner=record.owner)
    return told(
        [
            {
                "timestamp": moment(line["at"]),
                "event": line["verb"],
                "sandbox": name,
                **line["detail"],
            }
            for line in reversed(lines)
        ]
    )
