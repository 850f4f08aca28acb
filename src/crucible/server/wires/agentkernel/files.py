"""Files of a running sandbox over this wire: read, written one or many at a time, removed."""

from __future__ import annotations

from typing import TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError

from crucible.errors import BadSetting, MalformedBody
from crucible.sandbox.holding import Held
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.domain import Domain
from crucible.server.models.base import Name
from crucible.server.models.files import guest_path
from crucible.server.wires.agentkernel.envelope import Envelope, told
from crucible.server.wires.agentkernel.models import (
    FileContent,
    FilesToWrite,
    FilesWritten,
    FileToWrite,
)

router = APIRouter()

# A file is one text in a JSON document, so all of it is in memory.
MOST_BYTES = 16 << 20

Model = TypeVar("Model", bound=BaseModel)


@router.post("/sandboxes/{name}/files", dependencies=[MAY_RUN])
async def write_many(name: Name, domain: TheDomain, request: Request) -> Envelope[FilesWritten]:
    """All paths are looked at before the first is written."""
    asked = await _body(request, FilesToWrite)
    contents = {path_of(path): text.encode(errors="replace") for path, text in asked.files.items()}
    held = _held(domain, name)
    for path, data in contents.items():
        await _write(held, path, data)
    return told(FilesWritten(written=len(contents)))


@router.get("/sandboxes/{name}/files/{path:path}", dependencies=[MAY_READ])
async def read(name: Name, path: str, domain: TheDomain) -> Envelope[FileContent]:
    data = bytearray()
    files = _held(domain, name).machine.files
    async for piece in files.read(path_of(path), length=MOST_BYTES + 1):
        data += piece
    if len(data) > MOST_BYTES:
        raise BadSetting(
            f"The file is larger than {MOST_BYTES} bytes, which this API does not carry",
            hint="Read it with GET /api/v1/sandboxes/NAME/files, or `crucible cp`",
        )
    return told(FileContent.of(bytes(data)))


@router.put("/sandboxes/{name}/files/{path:path}", dependencies=[MAY_RUN])
async def write(name: Name, path: str, domain: TheDomain, request: Request) -> Envelope[str]:
    data = (await _body(request, FileToWrite)).as_bytes()
    place = path_of(path)
    await _write(_held(domain, name), place, data)
    return told(f"Wrote {len(data)} bytes to {place.decode(errors='replace')}")


@router.delete("/sandboxes/{name}/files/{path:path}", dependencies=[MAY_RUN])
async def delete(name: Name, path: str, domain: TheDomain) -> Envelope[str]:
    place = path_of(path)
    await _held(domain, name).machine.files.remove(place)
    return told(f"Deleted {place.decode(errors='replace')}")


def path_of(text: str) -> bytes:
    """Its clients write paths with and without their first slash; none leads upwards."""
    if ".." in text.split("/"):
        raise BadSetting(f"{text[:200]!r} leads upwards")
    return guest_path(f"/{text.lstrip('/')}")


async def _write(held: Held, path: bytes, data: bytes) -> None:
    await held.machine.files.write(path, data, owner=held.image.owner, make_parents=True)


async def _body(request: Request, model: type[Model]) -> Model:
    """A body that may be larger than others."""
    request.state.most_bytes = MOST_BYTES
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise MalformedBody(f"The body is not as it must be: {place}: {fault['msg']}") from None


def _held(domain: Domain, name: str) -> Held:
    held = domain.manager.running(name)
    held.touch()
    return held
