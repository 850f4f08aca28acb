"""What is known of the caller's user: seen, added to, corrected, pinned, forgotten, taken away, turned off."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.models.base import Page
from crucible.server.models.memory import (
    FactChanges,
    FactTold,
    FactWanted,
    Forgotten,
    Kind,
    MemorySwitch,
    MemorySwitched,
    RecalledTold,
    RememberedTold,
    SummaryTold,
)
from crucible.server.paging import Cursor, Limit, bad_cursor, next_page, page, read_cursor
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["memory"])

FactId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
# Later than any moment: so that the newest come first in a list that is sorted by its keys.
_LAST = 1e11


@router.get("/memory/facts", dependencies=[MAY_READ], operation_id="listFacts")
async def list_all(
    domain: TheDomain,
    caller: TheCaller,
    state: Annotated[
        Literal["active", "all"], Query(description="`all`: also what was replaced or has expired")
    ] = "active",
    kind: Kind | None = None,
    q: Annotated[str, Query(max_length=200, description="Words that it has")] = "",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[FactTold]:
    """The newest first."""
    memory = (await domain.books.get()).memory
    states: Any = ("active", "superseded", "expired") if state == "all" else ("active",)
    words = q.casefold().split()
    found = [
        fact
        for fact in await memory.list(caller.user, states=states)
        if kind in (None, fact.kind) and all(word in fact.text.casefold() for word in words)
    ]
    return page(
        found,
        key=lambda fact: f"{_LAST - fact.created_at:020.6f}:{fact.id}",
        show=FactTold.of,
        limit=limit,
        cursor=cursor,
    )


@router.post("/memory/facts", status_code=201, dependencies=[MAY_RUN], operation_id="addFact")
async def add(asked: FactWanted, domain: TheDomain, caller: TheCaller) -> RememberedTold:
    """Kept as it is written. It may confirm what is known, or replace it."""
    memory = (await domain.books.get()).memory
    change = await memory.remember(caller.user, asked.text, kind=asked.kind)
    if asked.pinned:
        await memory.pin(caller.user, change.fact.id)
    fact = await memory.find(caller.user, change.fact.id)
    return RememberedTold(
        action=change.action,
        fact=FactTold.of(fact),
        replaces=[FactTold.of(old) for old in change.before],
    )


@router.get("/memory/recall", dependencies=[MAY_READ], operation_id="recall")
async def recall(
    domain: TheDomain,
    caller: TheCaller,
    q: Annotated[str, Query(min_length=1, max_length=4000, description="As a prompt would say it")],
    tokens: Annotated[
        int, Query(ge=1, le=10_000, description="As many as its text may have")
    ] = 500,
) -> RecalledTold:
    """What a turn with these words would be told, and why."""
    return RecalledTold.of(await (await domain.books.get()).memory.recall(caller.user, q, tokens))


@router.get("/memory/facts/{id}", dependencies=[MAY_READ], operation_id="getFact")
async def get(id: FactId, domain: TheDomain, caller: TheCaller) -> FactTold:
    return FactTold.of(await (await domain.books.get()).memory.find(caller.user, id))


@router.get("/memory/facts/{id}/history", dependencies=[MAY_READ], operation_id="listFactHistory")
async def history(id: FactId, domain: TheDomain, caller: TheCaller) -> list[FactTold]:
    """What it has replaced, the newest first."""
    found = await (await domain.books.get()).memory.history(caller.user, id)
    return [FactTold.of(fact) for fact in found]


@router.patch("/memory/facts/{id}", dependencies=[MAY_RUN], operation_id="changeFact")
async def change(id: FactId, asked: FactChanges, domain: TheDomain, caller: TheCaller) -> FactTold:
    """Corrects its words or its kind, or pins it: what is pinned is always recalled and never expires."""
    memory = (await domain.books.get()).memory
    if asked.text is not None or asked.kind is not None:
        await memory.edit(caller.user, id, text=asked.text, kind=asked.kind)
    if asked.pinned is not None:
        await memory.pin(caller.user, id, is_pinned=asked.pinned)
    return FactTold.of(await memory.find(caller.user, id))


@router.delete("/memory/facts/{id}", dependencies=[MAY_RUN], operation_id="forgetFact")
async def forget(
    id: FactId,
    domain: TheDomain,
    caller: TheCaller,
    history: Annotated[bool, Query(description="With all that it has replaced")] = False,
) -> Forgotten:
    """For good: no list, no search and no file of ours has it afterwards."""
    memory = (await domain.books.get()).memory
    count = 1 + (len(await memory.history(caller.user, id)) if history else 0)
    await memory.forget(caller.user, id, with_history=history)
    return Forgotten(facts=count)


@router.delete("/memory", dependencies=[MAY_RUN], operation_id="forgetAll")
async def forget_all(domain: TheDomain, caller: TheCaller) -> Forgotten:
    """Everything that is known of this user, for good."""
    memory = (await domain.books.get()).memory
    states: Any = ("active", "superseded", "expired")
    count = len(await memory.list(caller.user, states=states))
    await memory.forget_all(caller.user)
    return Forgotten(facts=count)


@router.get("/memory/export", dependencies=[MAY_READ], operation_id="exportMemory")
async def export(
    domain: TheDomain, caller: TheCaller
) -> Annotated[dict[str, Any], Field(description="What `crucible memory import` reads")]:
    """Everything that is known, to take away."""
    return await (await domain.books.get()).memory.export(caller.user)


@router.get("/memory/settings", dependencies=[MAY_READ], operation_id="getMemorySettings")
async def settings(
    domain: TheDomain,
    caller: TheCaller,
    session: Annotated[str, Query(max_length=64, description="Of one session, too")] = "",
) -> MemorySwitched:
    found = await (await domain.books.get()).memory.settings(caller.user, session)
    return MemorySwitched(on=found.is_on)


@router.put("/memory/settings", dependencies=[MAY_RUN], operation_id="setMemorySettings")
async def switch(asked: MemorySwitch, domain: TheDomain, caller: TheCaller) -> MemorySwitched:
    """Off, nothing is kept and nothing recalled; what is known stays, and can be seen and forgotten."""
    memory = (await domain.books.get()).memory
    await memory.set_enabled(caller.user, asked.on, session=asked.session)
    return MemorySwitched(on=(await memory.settings(caller.user, asked.session)).is_on)


@router.get("/memory/summaries", dependencies=[MAY_READ], operation_id="listSummaries")
async def summaries(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[SummaryTold]:
    """What long conversations were cut down to, the latest first."""
    from crucible.memory.listing import summary_page

    work = partial(summary_page, user=caller.user, after=_after(cursor), limit=limit + 1)
    return next_page(
        await (await domain.books.get()).database.read(work),
        key=lambda one: f"{one.made_at!r}:{one.session}",
        show=SummaryTold.of,
        limit=limit,
    )


def _after(cursor: str | None) -> tuple[float, str] | None:
    match read_cursor(cursor):
        case ():
            return None
        case (made_at, session):
            try:
                return float(made_at), session
            except ValueError:
                raise bad_cursor() from None
    raise bad_cursor()
