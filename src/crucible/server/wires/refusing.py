"""What another product has and we have not: refused with the reason, so that nobody waits for an effect."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter

from crucible.errors import RouteMissing, Unsupported

ANY = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Refused(NamedTuple):
    """What is at a path and everything below it, unless it `is_alone`."""

    path: str
    why: str
    methods: tuple[str, ...] = ANY
    is_alone: bool = False


def refusing_router(refused: Sequence[Refused], *, guide: str) -> APIRouter:
    """For the end: after what is refused, whatever no route has is missing."""
    router = APIRouter(include_in_schema=False)
    for one in refused:
        paths = (one.path,) if one.is_alone else (one.path, one.path + "/{rest:path}")
        for path in paths:
            router.add_api_route(path, _refusing(one.why, guide), methods=list(one.methods))
    router.add_api_route("/{path:path}", _missing, methods=[*ANY, "HEAD", "OPTIONS"])
    return router


def _refusing(why: str, guide: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def refuse() -> None:
        raise Unsupported(why, hint=f"{guide} lists what is served")

    return refuse


async def _missing() -> None:
    raise RouteMissing
