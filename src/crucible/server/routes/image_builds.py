"""Images built from what a caller sends: a tar of a directory with a Dockerfile or a recipe in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from crucible.assemble import manager as new_manager
from crucible.build.builder import Built, build, missing_images
from crucible.build.dockerfile import MAX_BYTES, parse_dockerfile
from crucible.build.instructions import BuildFile
from crucible.build.recipe import parse_recipe
from crucible.build.work import Order
from crucible.config import Config
from crucible.errors import BadRequest, ImageMissing, PathRefused
from crucible.images import obtaining
from crucible.images.oci.pull import Policy, Pulling
from crucible.images.oci.reference import parse_reference
from crucible.sandbox.image_use import images_in_use
from crucible.sandbox.manager import Manager
from crucible.sandbox.scratch import scratch_directory
from crucible.sandbox.spec import DEFAULT_RUN_TIMEOUT_S, SandboxSpec, parse_environment
from crucible.sandbox.workspace.unpacking import Unpacker, UnpackLimits
from crucible.server.auth import MAY_ADMINISTER, TheDomain
from crucible.server.bytestreams import TAR_IN, save_body
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.routes.image_transfers import ImageName
from crucible.server.streaming import EventStream
from crucible.server.telling import Telling, told_as_events

router = APIRouter(prefix=PREFIX, tags=["images"])

MOST_CONTEXT_BYTES = 4 << 30
LIMITS = UnpackLimits(max_bytes=MOST_CONTEXT_BYTES, max_entries=200_000)
_FILES = ("Dockerfile", "recipe.toml")
_CHUNK = 1 << 20
_MOST_ARGUMENTS = 100
_LOOK_EVERY_S = 0.5

BuildArguments = Annotated[
    list[str], Query(max_length=_MOST_ARGUMENTS, description="NAME=VALUE for an ARG")
]
FileName = Annotated[
    str,
    Query(max_length=255, pattern=r"^[A-Za-z0-9._-]*$", description="At the top of the context"),
]


@router.post(
    "/images/build",
    dependencies=[MAY_ADMINISTER],
    operation_id="buildImage",
    response_class=StreamingResponse,
    responses=EVENTS,
    openapi_extra=TAR_IN,
)
async def build_image(
    name: ImageName,
    domain: TheDomain,
    request: Request,
    file: FileName = "",
    target: Annotated[str, Query(max_length=128)] = "",
    build_arg: BuildArguments = [],  # noqa: B006 - FastAPI copies it
    network: Literal["off", "full"] = "full",
    use_cache: bool = True,
) -> EventStream:
    """The body is a plain tar. `step` and `output` events, then `done` or `error`. A caller that goes first ends it."""
    called = parse_reference(name)
    arguments = parse_environment(build_arg)
    config = domain.manager.config
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_directory(config.home, "context"))
        archive, context = scratch / "context.tar", scratch / "context"
        await save_body(request, archive, MOST_CONTEXT_BYTES)
        await asyncio.to_thread(_unpack, archive, context)
        order = Order(
            file=_build_file(context, file),
            context=context,
            name=called,
            arguments=arguments,
            target=target,
            uses_cache=use_cache,
            spec=SandboxSpec(network=network),
            timeout_s=DEFAULT_RUN_TIMEOUT_S,
        )
        kept = stack.pop_all()
    return EventStream(_told(config, order, kept, request.state.request_id))


async def _told(
    config: Config, order: Order, kept: ExitStack, request_id: str
) -> AsyncGenerator[bytes, None]:
    with kept:
        events = told_as_events(lambda telling: _build(config, order, telling), request_id)
        try:
            async for one in events:
                yield one
        finally:
            await events.aclose()


def _build(config: Config, order: Order, telling: Telling) -> dict[str, Any]:
    """With a manager and an event loop of its own: much of a build blocks, and others are to be served meanwhile."""
    _obtain_missing(config, order, telling)
    own = new_manager(config)
    try:
        built = asyncio.run(_built(order, own, telling))
    finally:
        own.records.close()
    return {
        "name": order.name.familiar,
        "digest": built.digest,
        "steps_run": built.ran,
        "steps_cached": built.cached,
    }


async def _built(order: Order, own: Manager, telling: Telling) -> Built:
    """A step may be silent for long: whether anybody still waits is asked beside it."""
    work = build(
        order,
        own,
        tell=lambda line: telling.tell("step", {"text": line}),
        output=lambda data: telling.tell("output", {"text": data.decode(errors="replace")}),
    )
    building = asyncio.create_task(work)
    while not building.done():
        await asyncio.wait({building}, timeout=_LOOK_EVERY_S)
        if telling.is_stopped:
            building.cancel()
    return building.result()


def _obtain_missing(config: Config, order: Order, telling: Telling) -> None:
    home = config.home
    for name in missing_images(order, home):
        if not config.pulls_images:
            raise ImageMissing(name, ())
        how = Pulling(
            home=home,
            policy=Policy.MISSING,
            report=telling.note,
            progress=telling.layer,
            in_use=lambda: images_in_use(home),
        )
        obtaining.obtain(name, how)


def _unpack(archive: Path, context: Path) -> None:
    """Nothing of it lands outside of the directory, and what is neither file, directory nor link is left out."""
    context.mkdir(mode=0o700)
    with archive.open("rb") as file, Unpacker(context, limits=LIMITS) as unpacker:
        while data := file.read(_CHUNK):
            unpacker.feed(data)
        unpacker.finish()
    archive.unlink()


def _build_file(context: Path, given: str) -> BuildFile:
    names = [given] if given else list(_FILES)
    for name in names:
        if name in (".", ".."):
            raise BadRequest(f"{name!r} is no name of a file")
        data = _read(context / name)
        if data is not None:
            parse = parse_recipe if name.endswith(".toml") else parse_dockerfile
            return parse(data, origin=name)
    raise PathRefused(f"The context has no {' nor '.join(names)}", hint="Name it with `file`")


def _read(path: Path) -> bytes | None:
    """Not through a link, which could lead out of the context."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathRefused(f"{path.name!r} cannot be read: {error.strerror}") from None
    with os.fdopen(file, "rb") as stream:
        return stream.read(MAX_BYTES + 1)
