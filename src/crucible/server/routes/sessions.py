"""Sessions of the agent: made, changed, looked at, destroyed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import OWN_SESSION
from crucible.server.defaults import session_options
from crucible.server.models.agent import (
    ContextTold,
    HealthTold,
    HistoryTold,
    PinWanted,
    SessionChanges,
    SessionTold,
    SessionWanted,
    StepsBack,
)
from crucible.server.models.base import Page
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["sessions"], route_class=OnceRoute)

Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


@router.get("/agent", dependencies=[MAY_READ], operation_id="getAgentHealth")
async def health(domain: TheDomain) -> HealthTold:
    """What the engine has to do, lane by lane."""
    return HealthTold.of((await domain.engine.get()).health())


@router.post(
    "/sessions", status_code=201, dependencies=[MAY_RUN, IDEMPOTENT], operation_id="createSession"
)
async def create(asked: SessionWanted, domain: TheDomain, caller: TheCaller) -> SessionTold:
    """Its sandbox is opened when it is first needed."""
    options = await session_options(domain, asked, caller)
    return SessionTold.of(await (await domain.engine.get()).create_session(options))


@router.get("/sessions", dependencies=[MAY_READ], operation_id="listSessions")
async def list_all(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[SessionTold]:
    found = await (await domain.engine.get()).sessions(caller.user)
    return page(found, key=lambda one: one.id, show=SessionTold.of, limit=limit, cursor=cursor)


@router.get("/sessions/{id}", dependencies=[MAY_READ, OWN_SESSION], operation_id="getSession")
async def get(id: Id, domain: TheDomain) -> SessionTold:
    return SessionTold.of(await (await domain.engine.get()).session(id))


@router.patch(
    "/sessions/{id}", dependencies=[MAY_RUN, OWN_SESSION], operation_id="configureSession"
)
async def configure(id: Id, asked: SessionChanges, domain: TheDomain) -> SessionTold:
    changes = asked.model_dump(exclude_unset=True)
    if "models" in changes:
        changes["models"] = _named(changes["models"])
    return SessionTold.of(await (await domain.engine.get()).configure(id, changes))


@router.delete(
    "/sessions/{id}",
    status_code=204,
    dependencies=[MAY_RUN, OWN_SESSION],
    operation_id="destroySession",
)
async def destroy(id: Id, domain: TheDomain) -> None:
    """With its sandbox. What it did stays in the ledger."""
    await (await domain.engine.get()).destroy(id)


@router.get(
    "/sessions/{id}/history", dependencies=[MAY_READ, OWN_SESSION], operation_id="getHistory"
)
async def history(id: Id, domain: TheDomain) -> HistoryTold:
    return HistoryTold.of(await (await domain.engine.get()).history(id))


@router.get(
    "/sessions/{id}/context", dependencies=[MAY_READ, OWN_SESSION], operation_id="getContextUsage"
)
async def context(id: Id, domain: TheDomain) -> ContextTold:
    return ContextTold.of(await (await domain.engine.get()).context_usage(id))


@router.post("/sessions/{id}/pin", dependencies=[MAY_RUN, OWN_SESSION], operation_id="pinMessage")
async def pin(id: Id, asked: PinWanted, domain: TheDomain) -> HistoryTold:
    """A pinned message is kept word for word when the history is compacted."""
    engine = await domain.engine.get()
    await engine.pin(id, asked.message, is_pinned=asked.pinned)
    return HistoryTold.of(await engine.history(id))


@router.post(
    "/sessions/{id}/clear", dependencies=[MAY_RUN, OWN_SESSION], operation_id="clearSession"
)
async def clear(id: Id, domain: TheDomain) -> SessionTold:
    """Forgets the history. The sandbox stays as it is."""
    engine = await domain.engine.get()
    await engine.clear(id)
    return SessionTold.of(await engine.session(id))


@router.post(
    "/sessions/{id}/compact", dependencies=[MAY_RUN, OWN_SESSION], operation_id="compactSession"
)
async def compact(id: Id, domain: TheDomain) -> ContextTold:
    """Puts a summary in the place of what is old; what is pinned stays."""
    engine = await domain.engine.get()
    await engine.compact(id)
    return ContextTold.of(await engine.context_usage(id))


@router.post(
    "/sessions/{id}/rewind", dependencies=[MAY_RUN, OWN_SESSION], operation_id="rewindSession"
)
async def rewind(id: Id, asked: StepsBack, domain: TheDomain) -> SessionTold:
    """Back to where sandbox and history were so many steps ago, where checkpoints were asked for."""
    engine = await domain.engine.get()
    await engine.rewind(id, asked.steps)
    return SessionTold.of(await engine.session(id))


@router.post(
    "/sessions/{id}/branch",
    status_code=201,
    dependencies=[MAY_RUN, OWN_SESSION],
    operation_id="branchSession",
)
async def branch(
    id: Id, domain: TheDomain, step: Annotated[int, Query(ge=1, le=1_000_000)]
) -> SessionTold:
    """Another session that begins before that step, with a copy of the sandbox as it was then."""
    return SessionTold.of(await (await domain.engine.get()).branch(id, step))


def _named(models: dict[str, str | None]) -> dict[str, str]:
    return {purpose: name for purpose, name in models.items() if name is not None}
