"""Conversations: listed, searched, named, shown, thrown away and had back."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from crucible.agent.facts import MOST_TURNS
from crucible.conversations.exporting import as_json, as_markdown
from crucible.conversations.facts import LONGEST_QUERY, Found, Position
from crucible.errors import BadRequest
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import OWN_CONVERSATION, conversations_of
from crucible.server.bytestreams import bytes_out, streamed
from crucible.server.callers import Caller
from crucible.server.defaults import session_options
from crucible.server.domain import Domain
from crucible.server.frames import disposition
from crucible.server.models.base import Page
from crucible.server.models.conversations import (
    LARGEST_TURN,
    ConversationChanges,
    ConversationTold,
    ConversationWanted,
    TranscriptTold,
)
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id

OCTETS = "application/octet-stream"
Format = Annotated[Literal["markdown", "json"], Query()]

router = APIRouter(prefix=f"{PREFIX}/conversations", tags=["conversations"], route_class=OnceRoute)


@router.get("", dependencies=[MAY_READ], operation_id="listConversations")
async def list_all(
    domain: TheDomain,
    caller: TheCaller,
    q: Annotated[
        str, Query(max_length=LONGEST_QUERY, description="Words in a title or in what was said")
    ] = "",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[ConversationTold]:
    """Pinned ones first, then those that were last used."""
    engine = await domain.engine.get()
    found = await conversations_of(engine).page(
        caller.user, query=q, after=_parse(cursor), limit=limit + 1
    )
    facts = {one.id: one for one in await engine.sessions(caller.user)}
    shown = found[:limit]
    return Page(
        items=[ConversationTold.of(one, facts.get(one.conversation.id)) for one in shown],
        next=_cursor(shown[-1]) if len(found) > limit else None,
    )


@router.post(
    "",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="createConversation",
)
async def create(
    asked: ConversationWanted, domain: TheDomain, caller: TheCaller
) -> ConversationTold:
    engine = await domain.engine.get()
    facts = await engine.create_session(await session_options(domain, asked, caller))
    made = await conversations_of(engine).create(facts.id, caller.user, title=asked.title)
    return ConversationTold.of(Found(conversation=made), facts)


@router.get("/{id}", dependencies=[MAY_READ], operation_id="getConversation")
async def get(id: Id, domain: TheDomain, caller: TheCaller) -> ConversationTold:
    return await _told(domain, caller, id)


@router.patch("/{id}", dependencies=[MAY_RUN], operation_id="changeConversation")
async def change(
    id: Id, asked: ConversationChanges, domain: TheDomain, caller: TheCaller
) -> ConversationTold:
    engine = await domain.engine.get()
    await conversations_of(engine).change(
        id, caller.user, title=asked.title, is_pinned=asked.pinned
    )
    return await _told(domain, caller, id)


@router.delete("/{id}", status_code=204, dependencies=[MAY_RUN], operation_id="deleteConversation")
async def delete(id: Id, domain: TheDomain, caller: TheCaller) -> None:
    """Its turn is stopped. For ten minutes it can be restored; then it is gone for good, with its sandbox."""
    engine = await domain.engine.get()
    await conversations_of(engine).throw_away(id, caller.user)
    await engine.cancel(id)


@router.post("/{id}/restore", dependencies=[MAY_RUN], operation_id="restoreConversation")
async def restore(id: Id, domain: TheDomain, caller: TheCaller) -> ConversationTold:
    """One that was deleted less than ten minutes ago."""
    await conversations_of(await domain.engine.get()).restore(id, caller.user)
    return await _told(domain, caller, id)


@router.get(
    "/{id}/transcript",
    dependencies=[MAY_READ, OWN_CONVERSATION],
    operation_id="getTranscript",
)
async def transcript(
    id: Id,
    domain: TheDomain,
    before_turn: Annotated[int | None, Query(ge=1, lt=LARGEST_TURN)] = None,
    turns: Annotated[int, Query(ge=1, le=MOST_TURNS)] = 30,
) -> TranscriptTold:
    """The events of the newest turns, or of those before one, in order; pieces of one text are one event."""
    engine = await domain.engine.get()
    return TranscriptTold.of(await engine.transcript(id, turns=turns, before_turn=before_turn))


@router.get(
    "/{id}/export",
    dependencies=[MAY_READ],
    operation_id="exportConversation",
    response_class=StreamingResponse,
    responses=bytes_out(OCTETS),
)
async def export(
    id: Id, domain: TheDomain, caller: TheCaller, format: Format = "markdown"
) -> StreamingResponse:
    """All turns that were not taken back, to be saved."""
    engine = await domain.engine.get()
    found = await conversations_of(engine).get(id, caller.user)
    events = engine.whole_transcript(id)
    answer = await streamed(
        as_markdown(found, events) if format == "markdown" else as_json(found, events),
        "text/markdown" if format == "markdown" else "application/json",
    )
    ending = "md" if format == "markdown" else "json"
    answer.headers["Content-Disposition"] = disposition(
        f"{found.title or 'conversation'}.{ending}", is_download=True
    )
    return answer


async def _told(domain: Domain, caller: Caller, id: str) -> ConversationTold:
    engine = await domain.engine.get()
    found = await conversations_of(engine).get(id, caller.user)
    return ConversationTold.of(Found(conversation=found), await engine.session(id))


def _cursor(last: Found) -> str:
    one = last.conversation
    place = json.dumps([one.is_pinned, one.updated_at, one.id])
    return base64.urlsafe_b64encode(place.encode()).decode()


def _parse(cursor: str | None) -> Position | None:
    if cursor is None:
        return None
    try:
        is_pinned, updated_at, id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return Position(is_pinned=bool(is_pinned), updated_at=float(updated_at), id=str(id)[:64])
    except (ValueError, TypeError, RecursionError):
        raise BadRequest("The cursor is none that this server gave") from None
