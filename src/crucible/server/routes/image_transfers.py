"""Images on their way: pulled and pushed with what goes on told, into a file and out of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from crucible.errors import ImageUnsupported
from crucible.images import obtaining
from crucible.images.oci.exporting import ExportFormat, export
from crucible.images.oci.pull import Pulling
from crucible.images.oci.push import Pushing, push
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store
from crucible.sandbox.image_use import images_in_use
from crucible.sandbox.known_images import find_stored, is_builtin
from crucible.sandbox.scratch import scratch_directory
from crucible.server.auth import MAY_ADMINISTER, TheDomain
from crucible.server.bytestreams import BYTES_IN, bytes_out, save_body, streamed
from crucible.server.domain import Domain
from crucible.server.models.base import Asked
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.routes.images import Pull, Pulled, check_registry_name
from crucible.server.streaming import EventStream, while_connected
from crucible.server.telling import Telling, told_as_events

router = APIRouter(prefix=PREFIX, tags=["images"])

MOST_IMPORT_BYTES = 64 << 30
TAR = "application/x-tar"
_CHUNK = 1 << 20

ImageName = Annotated[str, Query(min_length=1, max_length=512)]
ArchiveForm = Annotated[
    Literal["oci-archive", "docker-archive"],
    Query(description="A tar of an OCI layout, or what `docker save` writes"),
]


class Push(Asked):
    name: Annotated[str, Field(min_length=1, max_length=512, description="Of an image here")]
    target: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        default=None, description="The name to push it under, if another"
    )


@router.post(
    "/images/pull/stream",
    dependencies=[MAY_ADMINISTER],
    operation_id="pullImageStream",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def pull_stream(asked: Pull, domain: TheDomain, request: Request) -> EventStream:
    """`progress` and `layer` events, then `done` or `error`. A caller that goes first ends the pull."""
    check_registry_name(asked.name)
    home = domain.manager.config.home

    def work(telling: Telling) -> dict[str, Any]:
        how = Pulling(
            home=home,
            policy=asked.policy,
            report=telling.note,
            progress=telling.layer,
            in_use=lambda: images_in_use(home),
        )
        image = obtaining.obtain(asked.name, how)
        return {"name": image.name, "digest": image.digest}

    return EventStream(told_as_events(work, request.state.request_id))


@router.post(
    "/images/push",
    dependencies=[MAY_ADMINISTER],
    operation_id="pushImage",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def push_stream(asked: Push, domain: TheDomain, request: Request) -> EventStream:
    """To a registry, with this host's logins: `progress` and `layer` events, then `done` or `error`."""
    home = domain.manager.config.home
    check_registry_name(asked.name)
    _refuse_builtin(home, asked.name)
    target = parse_reference(asked.target or asked.name)

    def work(telling: Telling) -> dict[str, Any]:
        store = Store(home)
        with store.opened():
            how = Pushing(report=telling.note, progress=telling.layer)
            digest = push(store, find_stored(store, asked.name), target, how)
        return {"name": target.familiar, "digest": digest}

    return EventStream(told_as_events(work, request.state.request_id))


@router.get(
    "/images/export",
    dependencies=[MAY_ADMINISTER],
    operation_id="exportImage",
    response_class=StreamingResponse,
    responses=bytes_out(TAR),
)
async def export_image(
    name: ImageName, domain: TheDomain, form: ArchiveForm = "oci-archive"
) -> StreamingResponse:
    """One file, with the digest of everything in it."""
    _refuse_builtin(domain.manager.config.home, name)
    return await streamed(_packed(domain, name, ExportFormat(form)), TAR, "image.tar")


@router.post(
    "/images/import",
    status_code=201,
    dependencies=[MAY_ADMINISTER],
    operation_id="importImage",
    openapi_extra=BYTES_IN,
)
async def import_image(
    name: ImageName, domain: TheDomain, request: Request, form: ArchiveForm = "oci-archive"
) -> Pulled:
    """The body is such a file; every byte is checked. `name` is what to call the image."""
    home = domain.manager.config.home
    called = parse_reference(name)
    with scratch_directory(home, "import") as scratch:
        path = scratch / "image.tar"
        await save_body(request, path, MOST_IMPORT_BYTES)
        how = Pulling(home=home, in_use=lambda: images_in_use(home))
        work = asyncio.to_thread(obtaining.obtain, f"{form}:{path}", how, name=called)
        image = await while_connected(request, work)
    return Pulled(name=image.name, digest=image.digest)


async def _packed(domain: Domain, name: str, form: ExportFormat) -> AsyncIterator[bytes]:
    async with AsyncExitStack() as stack:
        home = domain.manager.config.home
        path = stack.enter_context(scratch_directory(home, "export")) / "image.tar"
        await asyncio.to_thread(_export, home, name, path, form)
        file = stack.enter_context(path.open("rb"))
        while data := await asyncio.to_thread(file.read, _CHUNK):
            yield data


def _export(home: Path, name: str, path: Path, form: ExportFormat) -> None:
    store = Store(home)
    with store.opened():
        image = find_stored(store, name)
        export(store, image, parse_reference(image.reference), path, form)


def _refuse_builtin(home: Path, name: str) -> None:
    if is_builtin(home, name):
        raise ImageUnsupported(
            name,
            "it was made of packages here and has no layers",
            hint=f"Build one from it: a Dockerfile with `FROM {name}`",
        )
