"""Images: what is here to make sandboxes of, and its way in and out."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from crucible.assemble import remove_templates_of_gone_images
from crucible.errors import BadReference
from crucible.images import obtaining
from crucible.images.oci.pull import Policy, Pulling
from crucible.images.oci.reference import RegistryReference, parse_source
from crucible.images.on_demand import Abandoned
from crucible.sandbox import known_images
from crucible.sandbox.abandonable import beside
from crucible.sandbox.image_use import images_in_use
from crucible.sandbox.known_images import KnownImage
from crucible.server.auth import MAY_ADMINISTER, MAY_READ, TheDomain
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Page, Told
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX
from crucible.server.streaming import while_connected

router = APIRouter(prefix=PREFIX, tags=["images"])


class Pull(Asked):
    name: Annotated[str, Field(min_length=1, max_length=512, description="In a registry")]
    policy: Policy = Policy.ALWAYS


class Image(Told):
    name: str
    digest: str
    size_bytes: int
    root_bytes: int
    layers: int
    used_by: list[str]
    pulled_at: float | None

    @classmethod
    def of(cls, image: KnownImage) -> Image:
        return cls(
            name=image.name,
            digest=image.digest,
            size_bytes=image.size_bytes,
            root_bytes=image.root_bytes,
            layers=image.layers,
            used_by=list(image.used_by),
            pulled_at=image.pulled_at,
        )


class Pulled(Told):
    name: str
    digest: str


class Freed(Told):
    removed: list[str]
    size_bytes: int


@router.get("/images", dependencies=[MAY_READ], operation_id="listImages")
async def list_all(domain: TheDomain, limit: Limit = 100, cursor: Cursor = None) -> Page[Image]:
    images = await asyncio.to_thread(known_images.known_images, domain.manager.config.home)
    return page(images, key=lambda one: one.name, show=Image.of, limit=limit, cursor=cursor)


@router.post("/images/pull", dependencies=[MAY_ADMINISTER], operation_id="pullImage")
async def pull(asked: Pull, domain: TheDomain, request: Request) -> Pulled:
    """Answers when its root is made. A caller that goes first ends the pull; what was fetched stays for the next."""
    check_registry_name(asked.name)
    return await while_connected(request, _pull(domain, asked))


@router.post("/images/prune", dependencies=[MAY_ADMINISTER], operation_id="pruneImages")
async def prune(domain: TheDomain, everything: bool = False) -> Freed:
    """Removes what no name leads to; with `everything` also images that no sandbox is made of."""
    home = domain.manager.config.home
    freed = await asyncio.to_thread(
        functools.partial(obtaining.prune, home, lambda: images_in_use(home), everything=everything)
    )
    of_templates = await asyncio.to_thread(remove_templates_of_gone_images, domain.manager.config)
    return Freed(removed=list(freed.references), size_bytes=freed.size_bytes + of_templates)


@router.get("/images/{image:path}", dependencies=[MAY_READ], operation_id="inspectImage")
async def inspect(image: str, domain: TheDomain, verify: bool = False) -> dict[str, Any]:
    """By its name, or the first digits of its digest. With `verify` every byte of it is checked."""
    home = domain.manager.config.home
    return await asyncio.to_thread(
        functools.partial(known_images.describe, home, image, is_deep=verify)
    )


@router.delete(
    "/images/{image:path}",
    status_code=204,
    dependencies=[MAY_ADMINISTER],
    operation_id="removeImage",
)
async def remove(image: str, domain: TheDomain) -> None:
    config = domain.manager.config
    await asyncio.to_thread(known_images.remove, config.home, image)
    await asyncio.to_thread(remove_templates_of_gone_images, config)


def check_registry_name(name: str) -> None:
    """A caller names no files of this host."""
    if not isinstance(parse_source(name), RegistryReference):
        raise BadReference(name, "only names in registries can be given here")


async def _pull(domain: Domain, asked: Pull) -> Pulled:
    home = domain.manager.config.home
    is_stopped = False

    def go_on() -> None:
        if is_stopped:
            raise Abandoned

    def obtain() -> Pulled:
        how = Pulling(
            home=home,
            policy=asked.policy,
            report=lambda stage, detail: go_on(),
            progress=lambda digest, here, size: go_on(),
            in_use=lambda: images_in_use(home),
        )
        image = obtaining.obtain(asked.name, how)
        return Pulled(name=image.name, digest=image.digest)

    try:
        return await beside(obtain)
    finally:
        is_stopped = True
