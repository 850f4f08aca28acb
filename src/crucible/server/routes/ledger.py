"""Recorded runs: listed, looked into, added up, exported and verified. Each caller sees those of their user alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from crucible.errors import BadRequest, KeyUnusable, ManifestUnreadable
from crucible.server.auth import MAY_READ, TheCaller, TheDomain
from crucible.server.belonging import OWN_RUN, check_run
from crucible.server.bytestreams import BINARY, streamed
from crucible.server.domain import Domain
from crucible.server.hostile import OCTETS, TEXT, locked
from crucible.server.models.base import Page
from crucible.server.models.ledger import (
    EntryTold,
    PublicKeyTold,
    RunState,
    RunTold,
    TotalsTold,
    TotalTold,
    VerdictTold,
)
from crucible.server.paging import Cursor, Limit, bad_cursor, next_page, read_cursor
from crucible.server.routes import PREFIX

if TYPE_CHECKING:
    from crucible.ledger.keys import PublicKey
    from crucible.ledger.verifying import Verdict

router = APIRouter(prefix=PREFIX, tags=["runs"])

MANIFEST = "application/vnd.dsse+json"
ARCHIVE = "application/zip"
# A manifest is held in memory while it is checked.
MOST_MANIFEST = 64 << 20
MOST_SENT = 1 << 30
_MICRO = 1_000_000
_CHUNK = 1 << 20

RunId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Moment = Annotated[
    float | None, Query(ge=0, le=4e9, allow_inf_nan=False, description="Seconds since 1970")
]
From = Annotated[
    float | None,
    Query(alias="from", ge=0, le=4e9, allow_inf_nan=False, description="Seconds since 1970"),
]
Model = Annotated[str, Query(max_length=200, description="As `provider:name`; empty for all")]


@router.get("/runs", dependencies=[MAY_READ], operation_id="listRuns")
async def list_all(
    domain: TheDomain,
    caller: TheCaller,
    since: From = None,
    to: Moment = None,
    model: Model = "",
    state: RunState | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[RunTold]:
    """The latest first, of those that were opened in that time."""
    from crucible.ledger.pages import RunsWanted, run_page

    states = await _states(domain, caller.user)
    wanted = RunsWanted(
        user=caller.user,
        from_us=_micros(since),
        to_us=_micros(to),
        model=model,
        **_chosen(states, state),
    )
    work = partial(run_page, wanted=wanted, after=_after(cursor), limit=limit + 1)
    books = await domain.books.get()
    return next_page(
        await books.database.read(work),
        key=lambda run: f"{run.opened_us}:{run.id}",
        show=lambda run: RunTold.of(run, states.get(run.id, "ended")),
        limit=limit,
    )


@router.get("/runs/totals", dependencies=[MAY_READ], operation_id="getRunTotals")
async def totals(
    domain: TheDomain,
    caller: TheCaller,
    by: Literal["day", "model", "day-model"] = "day",
    since: From = None,
    to: Moment = None,
    model: Model = "",
) -> TotalsTold:
    """What all steps of that time came to. Days are those of UTC; by model, steps without one are left out."""
    from crucible.ledger.totals import totals

    work = partial(
        totals, user=caller.user, by=by, from_us=_micros(since), to_us=_micros(to), model=model
    )
    found = await (await domain.books.get()).database.read(work)
    return TotalsTold(items=[TotalTold.of(one) for one in found])


@router.get("/runs/key", dependencies=[MAY_READ], operation_id="getRunsKey")
async def public_key(domain: TheDomain) -> PublicKeyTold:
    """Whoever has it can check manifests of this server without it."""
    books = await domain.books.get()
    key = (await asyncio.to_thread(lambda: books.ledger.key)).public
    return PublicKeyTold(id=key.id, pem=key.pem())


@router.post(
    "/runs/verify",
    dependencies=[MAY_READ],
    operation_id="verifyRun",
    openapi_extra={
        "requestBody": {
            "description": "A manifest, or an archive with contents, if no run is named",
            "content": {MANIFEST: BINARY, ARCHIVE: BINARY, OCTETS: BINARY},
        }
    },
)
async def verify(
    request: Request,
    domain: TheDomain,
    run: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = None,
    key: Annotated[
        str, Query(max_length=2000, description="A public key in PEM; else that of this server")
    ] = "",
) -> VerdictTold:
    """Whether a run of this server, or an export that is sent, is what was signed."""
    books = await domain.books.get()
    if run is not None:
        await check_run(request, run)
        given = _key(key) if key else None
        return VerdictTold.of(await books.ledger.verify(run, given))
    request.state.most_bytes = MOST_SENT
    known = _key(key) if key else (await asyncio.to_thread(lambda: books.ledger.key)).public
    # One at a time: each may need much memory.
    async with domain.turn("verify a manifest"):
        with tempfile.TemporaryDirectory(prefix="crucible-verify-") as directory:
            path = FilePath(directory, "sent")
            if not await _received(request, path):
                raise BadRequest("Name a run, or send a manifest as the body")
            return VerdictTold.of(await asyncio.to_thread(_verdict, path, known))


@router.get("/runs/{id}", dependencies=[MAY_READ, OWN_RUN], operation_id="getRun")
async def get(id: RunId, domain: TheDomain, caller: TheCaller) -> RunTold:
    books = await domain.books.get()
    states = await _states(domain, caller.user)
    return RunTold.of(await books.ledger.run(id), states.get(id, "ended"))


@router.get("/runs/{id}/entries", dependencies=[MAY_READ, OWN_RUN], operation_id="listRunEntries")
async def entries(
    id: RunId,
    domain: TheDomain,
    kind: Annotated[str, Query(max_length=64, description="Such as `tool-call`")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[EntryTold]:
    """In the order in which they were recorded."""
    from crucible.ledger.pages import entry_page

    match read_cursor(cursor):
        case ():
            after = 0
        case (number,) if number.isascii() and number.isdecimal() and len(number) < 17:
            after = int(number)
        case _:
            raise bad_cursor()
    work = partial(entry_page, run=id, after=after, kind=kind, limit=limit + 1)
    found = await (await domain.books.get()).database.read(work)
    return next_page(found, key=lambda one: str(one.number), show=EntryTold.of, limit=limit)


@router.get(
    "/runs/{id}/blobs/{hash}",
    dependencies=[MAY_READ, OWN_RUN],
    operation_id="getRunContent",
    response_class=Response,
    responses={
        200: {"content": {TEXT: BINARY, OCTETS: BINARY}, "description": "The bytes, as they are"}
    },
)
async def content(
    id: RunId,
    hash: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    domain: TheDomain,
    first: Annotated[int | None, Query(ge=1, le=MOST_MANIFEST, description="No more bytes")] = None,
    download: bool = False,
) -> Response:
    """What went into a step or came out of it. `X-Content-Size` tells how much there is. 410 if it was erased."""
    data = await (await domain.books.get()).ledger.blob(id, hash)
    size = {"X-Content-Size": str(len(data))}
    return locked(data[:first], name=hash[:16], download=download, headers=size)


@router.get(
    "/runs/{id}/manifest",
    dependencies=[MAY_READ, OWN_RUN],
    operation_id="exportRun",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {MANIFEST: BINARY, ARCHIVE: BINARY},
            "description": "A file that is signed",
        }
    },
)
async def manifest(
    id: RunId,
    domain: TheDomain,
    contents: Annotated[bool, Query(description="A zip file with the contents, too")] = False,
) -> Response:
    """The whole run in one signed file (DSSE, Ed25519). 409 if it is no more what was signed."""
    ledger = (await domain.books.get()).ledger
    if contents:
        made = _archived(partial(ledger.export_archive_now, id))
        return await streamed(made, ARCHIVE, f"{id}.zip")
    held = {"Content-Disposition": f'attachment; filename="{id}.json"'}
    return Response(await ledger.export(id) + b"\n", media_type=MANIFEST, headers=held)


async def _states(domain: Domain, user: str) -> dict[str, RunState]:
    """Of the sessions that are there: a run has the name of its session."""
    engine = await domain.engine.get()
    return {one.id: one.state for one in await engine.sessions(user)}


def _chosen(states: dict[str, RunState], wanted: RunState | None) -> dict[str, frozenset[str]]:
    if wanted is None:
        return {}
    if wanted == "ended":
        return {"without": frozenset(states)}
    return {"only": frozenset(name for name, state in states.items() if state == wanted)}


def _after(cursor: str | None) -> tuple[int, str] | None:
    match read_cursor(cursor):
        case ():
            return None
        case (moment, name) if moment.isascii() and moment.isdecimal() and len(moment) < 19:
            return int(moment), name
    raise bad_cursor()


def _micros(moment: float | None) -> int | None:
    return None if moment is None else int(moment * _MICRO)


def _key(pem: str) -> PublicKey:
    from crucible.ledger.keys import parse_public_key

    try:
        return parse_public_key(pem.encode(), "the key that was sent")
    except KeyUnusable as error:
        raise BadRequest(error.message) from None


async def _received(request: Request, path: FilePath) -> int:
    size = 0
    with path.open("wb") as file:
        async for data in request.stream():
            size += len(data)
            await asyncio.to_thread(file.write, data)
    return size


def _verdict(path: FilePath, key: PublicKey) -> Verdict:
    from crucible.ledger.manifests import verify_file

    try:
        return verify_file(path, key, most=MOST_MANIFEST)
    except ManifestUnreadable as error:
        # Where it lay for that while is nobody's business.
        raise BadRequest(error.message.replace(str(path), "What was sent")) from None


async def _archived(write: partial[None]) -> AsyncIterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="crucible-export-") as directory:
        path = FilePath(directory, "run.zip")
        await asyncio.to_thread(write, path)
        with await asyncio.to_thread(path.open, "rb") as file:
            while data := await asyncio.to_thread(file.read, _CHUNK):
                yield data
