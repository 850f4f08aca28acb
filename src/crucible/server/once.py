"""Requests that may come again: with an `Idempotency-Key` the same request is done once and answered alike."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from crucible.errors import BadRequest, KeyReused
from crucible.server.auth import caller_of
from crucible.server.domain import Domain, domain_of

KEPT_S = 24 * 3600.0
LONGEST_KEY = 200
LARGEST_ANSWER = 1 << 20

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


async def _key(
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=LONGEST_KEY,
            description="A request with the same key and body is done once, and answered alike for a day",
        ),
    ] = None,
) -> None:
    """For the description alone: the route has dealt with it already."""


IDEMPOTENT = Depends(_key)


class OnceRoute(APIRoute):
    """Only answers that say that it was done are kept: what failed can be tried again with the same key."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if not any(one.dependency is _key for one in self.dependencies):
            return handle

        async def handle_once(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if key is None:
                return await handle(request)
            return await _once(request, key, handle)

        return handle_once


async def _once(request: Request, key: str, handle: Handler) -> Response:
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise BadRequest(f"An idempotency key has 1 to {LONGEST_KEY} printable characters")
    domain, caller = domain_of(request), caller_of(request).id
    digest = hashlib.sha256(
        b"\0".join((request.method.encode(), str(request.url).encode(), await request.body()))
    ).digest()
    async with domain.turn(f"{caller}\0{key}"):
        known = _known(domain, caller, key)
        if known is None:
            response = await handle(request)
            _keep(domain, caller, key, digest, response)
            return response
    if known["request"] != digest:
        raise KeyReused(key)
    return Response(known["body"], known["status"], media_type="application/json")


def _known(domain: Domain, caller: str, key: str) -> Any:
    rows = domain.store.read(
        "SELECT * FROM answers WHERE caller = ? AND key = ? AND at > ?",
        caller, key, time.time() - KEPT_S,
    )  # fmt: skip
    return rows[0] if rows else None


def _keep(domain: Domain, caller: str, key: str, digest: bytes, response: Response) -> None:
    body = getattr(response, "body", None)
    if body is None or response.status_code >= 300 or len(body) > LARGEST_ANSWER:
        return
    domain.store.write("DELETE FROM answers WHERE at <= ?", time.time() - KEPT_S)
    domain.store.write(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
        caller, key, digest, response.status_code, bytes(body), time.time(),
    )  # fmt: skip
