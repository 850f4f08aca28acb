"""Files of a running sandbox: read, written, listed, moved, removed; trees as archives."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from crucible.errors import CrucibleError
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Watch
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.bytestreams import BYTES_IN, TAR_IN, body_of, bytes_out, streamed
from crucible.server.domain import Domain
from crucible.server.models.base import Name
from crucible.server.models.files import (
    LONGEST_PATH,
    Entries,
    FileChange,
    FileEntry,
    Move,
    NewDirectory,
    Unpacked,
    Written,
    guest_path,
)
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream, event

router = APIRouter(prefix=PREFIX, tags=["files"])

InGuest = Annotated[
    str, Query(min_length=1, max_length=LONGEST_PATH, description="Absolute, in the sandbox")
]
Offset = Annotated[int, Query(ge=0, le=1 << 62)]
AnyOwner = Annotated[str, Query(max_length=256)]
AnyMode = Annotated[int, Query(ge=0, le=0o7777)]
OCTETS = "application/octet-stream"
TAR = "application/x-tar"


@router.get(
    "/sandboxes/{name}/files",
    dependencies=[MAY_READ],
    operation_id="readFile",
    response_class=StreamingResponse,
    responses=bytes_out(OCTETS),
)
async def read(
    name: Name, path: InGuest, domain: TheDomain, offset: Offset = 0, length: Offset = 0
) -> StreamingResponse:
    """All of a file from `offset` on, or its next `length` bytes."""
    files = _held(domain, name).machine.files
    return await streamed(files.read(guest_path(path), offset=offset, length=length), OCTETS)


@router.put(
    "/sandboxes/{name}/files",
    dependencies=[MAY_RUN],
    operation_id="writeFile",
    openapi_extra=BYTES_IN,
)
async def write(
    name: Name,
    path: InGuest,
    domain: TheDomain,
    request: Request,
    mode: AnyMode = 0o644,
    owner: AnyOwner = "",
    append: bool = False,
    parents: bool = False,
) -> Written:
    """The body, as it is, becomes the file. Without an owner it belongs to the image's user."""
    held = _held(domain, name)
    size = await held.machine.files.write(
        guest_path(path), body_of(request), mode=mode, owner=owner or held.image.owner,
        append=append, make_parents=parents,
    )  # fmt: skip
    return Written(path=path, size=size)


@router.delete(
    "/sandboxes/{name}/files", status_code=204, dependencies=[MAY_RUN], operation_id="removeFile"
)
async def remove(name: Name, path: InGuest, domain: TheDomain, recursive: bool = False) -> None:
    await _held(domain, name).machine.files.remove(guest_path(path), recursive=recursive)


@router.get("/sandboxes/{name}/files/stat", dependencies=[MAY_READ], operation_id="statFile")
async def stat(name: Name, path: InGuest, domain: TheDomain, follow: bool = True) -> FileEntry:
    files = _held(domain, name).machine.files
    return FileEntry.of(await files.stat(guest_path(path), follow=follow))


@router.get("/sandboxes/{name}/files/list", dependencies=[MAY_READ], operation_id="listDirectory")
async def list_directory(name: Name, path: InGuest, domain: TheDomain) -> Entries:
    found = await _held(domain, name).machine.files.list(guest_path(path))
    return Entries(items=[FileEntry.of(entry) for entry in found])


@router.post(
    "/sandboxes/{name}/files/mkdir",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="makeDirectory",
)
async def make_directory(name: Name, asked: NewDirectory, domain: TheDomain) -> None:
    held = _held(domain, name)
    await held.machine.files.mkdir(
        guest_path(asked.path), mode=asked.mode, owner=asked.owner or held.image.owner,
        parents=asked.parents,
    )  # fmt: skip


@router.post(
    "/sandboxes/{name}/files/move", status_code=204, dependencies=[MAY_RUN], operation_id="moveFile"
)
async def move(name: Name, asked: Move, domain: TheDomain) -> None:
    files = _held(domain, name).machine.files
    await files.rename(guest_path(asked.source), guest_path(asked.target))


@router.get(
    "/sandboxes/{name}/archive",
    dependencies=[MAY_READ],
    operation_id="readArchive",
    response_class=StreamingResponse,
    responses=bytes_out(TAR),
)
async def read_archive(name: Name, path: InGuest, domain: TheDomain) -> StreamingResponse:
    """A directory and all that is in it, as a tar."""
    return await streamed(_held(domain, name).machine.files.tar_out(guest_path(path)), TAR)


@router.put(
    "/sandboxes/{name}/archive",
    dependencies=[MAY_RUN],
    operation_id="writeArchive",
    openapi_extra=TAR_IN,
)
async def write_archive(
    name: Name, path: InGuest, domain: TheDomain, request: Request, owner: AnyOwner = ""
) -> Unpacked:
    """Unpacks a tar beneath a directory, inside the sandbox: what is hostile in it is hostile there alone."""
    held = _held(domain, name)
    count = await held.machine.files.tar_in(
        guest_path(path), body_of(request), owner=owner or held.image.owner
    )
    return Unpacked(entries=count)


@router.get(
    "/sandboxes/{name}/files/watch",
    dependencies=[MAY_READ],
    operation_id="watchDirectory",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def watch(
    name: Name, path: InGuest, domain: TheDomain, request: Request, recursive: bool = False
) -> EventStream:
    """`ready`, then a `change` for each; after one of kind `overflow` some were not told."""
    held = _held(domain, name)
    watch = await held.machine.watch(guest_path(path), recursive=recursive)
    return EventStream(_changes(held, watch, request.state.request_id))


async def _changes(held: Held, watch: Watch, request_id: str) -> AsyncGenerator[bytes, None]:
    try:
        with held.used():
            yield event("ready", {})
            while (change := await watch.next()) is not None:
                yield event("change", FileChange.of(change).model_dump())
            yield event("end", {})
    except CrucibleError as error:
        yield event("error", fields_of(error, request_id))
    finally:
        await watch.close()


def _held(domain: Domain, name: str) -> Held:
    held = domain.manager.running(name)
    held.touch()
    return held
