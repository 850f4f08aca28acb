"""Volumes: what sandboxes share, one writer at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from crucible.sandbox import volume_use
from crucible.sandbox.volumes import Volume, Volumes
from crucible.server.auth import MAY_ADMINISTER, MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import sandboxes_of
from crucible.server.bytestreams import bytes_out, streamed
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Name, Page, Told
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["volumes"], route_class=OnceRoute)

TAR = "application/x-tar"


class NewVolume(Asked):
    name: Name


class VolumeFacts(Told):
    name: str
    size_bytes: int
    changed_at: float
    sandboxes: list[str]


@router.get("/volumes", dependencies=[MAY_READ], operation_id="listVolumes")
async def list_all(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[VolumeFacts]:
    return page(
        _volumes(domain).all(),
        key=lambda one: one.name,
        show=lambda one: _facts(domain, caller, one),
        limit=limit,
        cursor=cursor,
    )


@router.post(
    "/volumes", status_code=201, dependencies=[MAY_RUN, IDEMPOTENT], operation_id="createVolume"
)
async def create(asked: NewVolume, domain: TheDomain, caller: TheCaller) -> VolumeFacts:
    return _facts(domain, caller, _volumes(domain).create(asked.name))


@router.get("/volumes/{volume}", dependencies=[MAY_READ], operation_id="getVolume")
async def get(volume: Name, domain: TheDomain, caller: TheCaller) -> VolumeFacts:
    return _facts(domain, caller, _volumes(domain).find(volume))


@router.get(
    "/volumes/{volume}/archive",
    dependencies=[MAY_READ],
    operation_id="readVolume",
    response_class=StreamingResponse,
    responses=bytes_out(TAR),
)
async def read(volume: Name, domain: TheDomain) -> StreamingResponse:
    """What it holds, as a tar. What sandboxes wrote is in it as they wrote it: unpack it with care."""
    return await streamed(_content(_volumes(domain), volume), TAR, f"{volume}.tar")


@router.delete(
    "/volumes/{volume}",
    status_code=204,
    dependencies=[MAY_ADMINISTER],
    operation_id="removeVolume",
)
async def remove(volume: Name, domain: TheDomain) -> None:
    manager = domain.manager
    volume_use.remove(volume, manager.records.sandboxes, manager.config.home)


def _volumes(domain: Domain) -> Volumes:
    return Volumes(domain.manager.config.home)


def _facts(domain: Domain, caller: Caller, volume: Volume) -> VolumeFacts:
    users = volume_use.users(volume.name, sandboxes_of(domain, caller))
    return VolumeFacts(**volume._asdict(), sandboxes=users)


async def _content(volumes: Volumes, name: str) -> AsyncIterator[bytes]:
    for data in volumes.content(name):
        yield data
