"""What a conversation's sandbox changed: written to the directory of the host that was opened, or taken as a zip."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from crucible.agent.workplace import WORKSPACE
from crucible.conversations.zipping import ZipEntry, zipped
from crucible.errors import BadRequest, BadSetting, Forbidden
from crucible.sandbox.session import Files
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import OWN_CONVERSATION
from crucible.server.bytestreams import bytes_out, streamed
from crucible.server.callers import LOCAL
from crucible.server.changes import apply_to_host, find_changes, shown_name
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Told
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id
from crucible.server.tokens import Scope

router = APIRouter(prefix=f"{PREFIX}/conversations", tags=["conversations"])

ZIP = "application/zip"
_MOST_PATHS = 10_000
PathText = Annotated[str, Field(min_length=1, max_length=4096)]


class ApplyWanted(Asked):
    paths: Annotated[list[PathText], Field(min_length=1, max_length=_MOST_PATHS)]


class RefusedTold(Told):
    path: str
    why: str


class AppliedTold(Told):
    applied: list[str]
    refused: list[RefusedTold]


@router.post("/{id}/apply", dependencies=[MAY_RUN, OWN_CONVERSATION], operation_id="applyChanges")
async def apply(id: Id, asked: ApplyWanted, domain: TheDomain, caller: TheCaller) -> AppliedTold:
    """To the directory that the conversation began with. Only for who runs the server; what the host changed stays."""
    if caller.user != LOCAL or not caller.scope.includes(Scope.ADMIN):
        raise Forbidden("Only who runs this server writes files on its machine")
    found = await find_changes(domain.manager, await _sandbox(domain, id))
    applied = await apply_to_host(found, asked.paths)
    return AppliedTold(
        applied=[shown_name(one.name) for one in applied.done],
        refused=[
            RefusedTold(path=shown_name(one.change.name), why=one.why) for one in applied.refused
        ],
    )


@router.get(
    "/{id}/changes.zip",
    dependencies=[MAY_READ, OWN_CONVERSATION],
    operation_id="getChangesZip",
    response_class=StreamingResponse,
    responses=bytes_out(ZIP),
)
async def changes_zip(
    id: Id,
    domain: TheDomain,
    path: Annotated[
        list[PathText], Query(max_length=_MOST_PATHS, description="Only these, else all")
    ] = [],  # noqa: B006 - read only, as FastAPI wants it
) -> StreamingResponse:
    """New and changed files as they are in the sandbox; all files of the workspace if it began with none."""
    name = await _sandbox(domain, id)
    try:
        found = await find_changes(domain.manager, name)
    except BadSetting:
        return await streamed(zipped(_workspace(domain, name, set(path))), ZIP, "workspace.zip")
    entries = _files(
        found.files,
        found.path,
        [one.name for one in found.changes.all if one.new is not None and one.new.type == "file"],
        set(path),
    )
    return await streamed(zipped(entries), ZIP, "changes.zip")


async def _workspace(domain: Domain, name: str, wanted: set[str]) -> AsyncIterator[ZipEntry]:
    held = domain.manager.running(name)
    root = WORKSPACE.encode()
    with held.used():
        names = [
            entry.name async for entry in held.machine.files.tree(root) if entry.type == "file"
        ]
        async for entry in _files(held.machine.files, root, names, wanted):
            yield entry


async def _files(
    files: Files, root: bytes, names: list[bytes], wanted: set[str]
) -> AsyncIterator[ZipEntry]:
    for name in names:
        told = shown_name(name)
        if not wanted or told in wanted:
            yield ZipEntry(name=told, data=files.read(root + b"/" + name))


async def _sandbox(domain: Domain, id: str) -> str:
    place = (await (await domain.engine.get()).session(id)).place
    if place is None:
        raise BadRequest("This conversation has no sandbox yet: nothing was changed")
    return place.name
