"""Snapshots over this wire."""

from __future__ import annotations

import secrets

from fastapi import APIRouter

from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import find_sandbox, snapshots_of
from crucible.server.models.base import Name
from crucible.server.wires.agentkernel.envelope import Envelope, told
from crucible.server.wires.agentkernel.models import (
    NewSnapshot,
    Restore,
    Restored,
    SandboxInfo,
    Snapshot,
)

router = APIRouter()


@router.get("/snapshots", dependencies=[MAY_READ])
async def list_all(domain: TheDomain, caller: TheCaller) -> Envelope[list[Snapshot]]:
    return told([Snapshot.of(record) for record in snapshots_of(domain, caller)])


@router.post("/snapshots", status_code=201, dependencies=[MAY_RUN])
async def take(asked: NewSnapshot, domain: TheDomain, caller: TheCaller) -> Envelope[Snapshot]:
    """Memory and processes are in it too."""
    find_sandbox(domain, caller, asked.sandbox)
    tag = asked.name or f"snap-{secrets.token_hex(5)}"
    return told(Snapshot.of(await domain.snapshots.take(asked.sandbox, tag)))


@router.get("/snapshots/{tag}", dependencies=[MAY_READ])
async def get(tag: Name, domain: TheDomain) -> Envelope[Snapshot]:
    return told(Snapshot.of(domain.manager.records.find_snapshot(tag)))


@router.delete("/snapshots/{tag}", dependencies=[MAY_RUN])
async def delete(tag: Name, domain: TheDomain) -> Envelope[str]:
    await domain.snapshots.remove(tag)
    return told("Snapshot deleted")


@router.post("/snapshots/{tag}/restore", status_code=201, dependencies=[MAY_RUN])
async def restore(tag: Name, domain: TheDomain, asked: Restore | None = None) -> Envelope[Restored]:
    """A new sandbox that goes on where the snapshot was taken."""
    name = asked.as_name if asked is not None else None
    if name is None:
        name = f"{domain.manager.records.find_snapshot(tag).sandbox_name[:54]}-restored"
    held = await domain.snapshots.restore(tag, name)
    await domain.executions.take_over(held)
    info = SandboxInfo.of(held.record)
    return told(Restored(**info.model_dump(), sandbox=name, from_snapshot=tag))
