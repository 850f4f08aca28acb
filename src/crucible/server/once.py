"""Requests that may come again: with an `Idempotency-Key` the same request is done once and answered alike."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from crucible.errors import BadRequest, KeyReused, OutcomeUnknown
from crucible.server.auth import caller_of
from crucible.server.domain import Domain, domain_of

KEPT_S = 24 * 3600.0
LONGEST_KEY = 200
LARGEST_ANSWER = 1 << 20
# In the place of a status: it was begun, and nobody knows more.
_BEGUN = 0

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
    """Only answers that say that it was done are kept: what failed can be tried again with the same key.

    One whose server died before it could answer, or whose answer is too large to keep, is not done again.
    """

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
            return await _first(request, caller, key, digest, handle)
    if known["request"] != digest:
        raise KeyReused(key)
    if known["status"] == _BEGUN:
        raise OutcomeUnknown(key)
    return Response(known["body"], known["status"], media_type="application/json")


def _known(domain: Domain, caller: str, key: str) -> Any:
    rows = domain.store.read(
        "SELECT * FROM answers WHERE caller = ? AND key = ? AND at > ?",
        caller, key, time.time() - KEPT_S,
    )  # fmt: skip
    return rows[0] if rows else None


async def _first(
    request: Request, caller: str, key: str, digest: bytes, handle: Handler
) -> Response:
    """Written down before it is done: if we die meanwhile, whoever asks again is told that it may have been."""
    domain = domain_of(request)
    domain.store.write("DELETE FROM answers WHERE at <= ?", time.time() - KEPT_S)
    _write(domain, caller, key, digest, _BEGUN, b"")
    try:
        response = await handle(request)
    except BaseException:
        _forget(domain, caller, key)
        raise
    if response.status_code >= 300:
        _forget(domain, caller, key)
        return response
    body = getattr(response, "body", None)
    if body is not None and len(body) <= LARGEST_ANSWER:
        _write(domain, caller, key, digest, response.status_code, bytes(body))
    return response


def _write(domain: Domain, caller: str, key: str, digest: bytes, status: int, body: bytes) -> None:
    domain.store.write(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
        caller, key, digest, status, body, time.time(),
    )  # fmt: skip


def _forget(domain: Domain, caller: str, key: str) -> None:
    domain.store.write("DELETE FROM answers WHERE caller = ? AND key = ?", caller, key)
