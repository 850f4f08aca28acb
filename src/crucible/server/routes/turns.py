"""Turns of a session: begun, followed as events, waited for, cancelled. A turn lives on when its watcher leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from crucible.agent.models.base import Schema
from crucible.errors import BadRequest, CrucibleError
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.belonging import OWN_SESSION
from crucible.server.models.agent import AnswerTold, ObjectWanted, PromptGiven, TurnTold
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.routes.sessions import Id
from crucible.server.streaming import EventStream, event

if TYPE_CHECKING:
    from crucible.agent.engine import Engine

router = APIRouter(prefix=PREFIX, tags=["sessions"], route_class=OnceRoute)

_LARGEST = (1 << 62) - 1
_LAST = "turn-ended"


@router.post(
    "/sessions/{id}/turns",
    status_code=202,
    dependencies=[MAY_RUN, OWN_SESSION, IDEMPOTENT],
    operation_id="beginTurn",
)
async def begin(id: Id, asked: PromptGiven, domain: TheDomain) -> TurnTold:
    """Answers at once. What comes of it is told as events after `after`."""
    turn = await (await domain.engine.get()).begin(id, asked.prompt, intent=asked.intent)
    return TurnTold(session=id, turn=turn.number, after=turn.first_event - 1)


@router.post(
    "/sessions/{id}/resume",
    status_code=202,
    dependencies=[MAY_RUN, OWN_SESSION],
    operation_id="resumeTurn",
)
async def resume(id: Id, domain: TheDomain) -> TurnTold:
    """Goes on with a turn that was interrupted."""
    turn = await (await domain.engine.get()).resume(id)
    return TurnTold(session=id, turn=turn.number, after=turn.first_event - 1)


@router.post(
    "/sessions/{id}/generate",
    dependencies=[MAY_RUN, OWN_SESSION, IDEMPOTENT],
    operation_id="generate",
)
async def generate(id: Id, asked: PromptGiven, domain: TheDomain) -> AnswerTold:
    """Waits for the whole turn. It goes on if the caller leaves."""
    turn = await (await domain.engine.get()).begin(id, asked.prompt, intent=asked.intent)
    return AnswerTold.of(await turn.wait())


@router.post(
    "/sessions/{id}/stream",
    dependencies=[MAY_RUN, OWN_SESSION],
    operation_id="streamTurn",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def stream(id: Id, asked: PromptGiven, domain: TheDomain, request: Request) -> EventStream:
    """The turn's events, `turn-ended` last. Who was cut off reads on with `GET …/events` and `Last-Event-ID`."""
    engine = await domain.engine.get()
    turn = await engine.begin(id, asked.prompt, intent=asked.intent)
    return EventStream(_told(engine, id, turn.first_event - 1, request, turn.number))


@router.post(
    "/sessions/{id}/object",
    dependencies=[MAY_RUN, OWN_SESSION, IDEMPOTENT],
    operation_id="generateObject",
)
async def generate_object(id: Id, asked: ObjectWanted, domain: TheDomain) -> AnswerTold:
    """`value` has the object. One that does not fit after all repairs is an error in `error`."""
    engine = await domain.engine.get()
    turn = await engine.begin(
        id, asked.prompt, schema=_schema(asked), max_repairs=asked.max_repairs
    )
    return AnswerTold.of(await turn.wait())


@router.post(
    "/sessions/{id}/object/stream",
    dependencies=[MAY_RUN, OWN_SESSION],
    operation_id="streamObject",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def stream_object(
    id: Id, asked: ObjectWanted, domain: TheDomain, request: Request
) -> EventStream:
    """`object` events with what there is of it so far, and with the whole at the end."""
    engine = await domain.engine.get()
    turn = await engine.begin(
        id, asked.prompt, schema=_schema(asked), max_repairs=asked.max_repairs
    )
    return EventStream(_told(engine, id, turn.first_event - 1, request, turn.number))


@router.get(
    "/sessions/{id}/events",
    dependencies=[MAY_READ, OWN_SESSION],
    operation_id="followSession",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def follow(
    id: Id,
    domain: TheDomain,
    request: Request,
    after: Annotated[int, Query(ge=0, le=_LARGEST)] = 0,
    turn: Annotated[
        int | None, Query(ge=0, le=_LARGEST, description="End with the end of this turn")
    ] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)] = None,
) -> EventStream:
    """All events after a number, the kept ones first, then those that come. `Last-Event-ID` goes before `after`."""
    engine = await domain.engine.get()
    await engine.session(id)
    start = after if last_event_id is None else _number(last_event_id)
    return EventStream(_told(engine, id, start, request, turn))


@router.post(
    "/sessions/{id}/cancel", dependencies=[MAY_RUN, OWN_SESSION], operation_id="cancelTurn"
)
async def cancel(id: Id, domain: TheDomain) -> dict[str, bool]:
    """Stops the model, and kills what runs in the sandbox. Tells whether there was a turn."""
    return {"cancelled": await (await domain.engine.get()).cancel(id)}


async def _told(
    engine: Engine, id: str, after: int, request: Request, turn: int | None
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(engine.events(id, after=after)) as events:
            async for one in events:
                data: dict[str, Any] = {"turn": one.turn, "at": one.at, **one.data}
                yield event(one.kind, data, str(one.number))
                if turn is not None and one.kind == _LAST and one.turn >= turn:
                    return
    except CrucibleError as error:
        yield event("error", fields_of(error, request.state.request_id))


def _schema(asked: ObjectWanted) -> Schema:
    name = asked.schema_.get("title")
    return Schema(name=name if isinstance(name, str) else "answer", schema=asked.schema_)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _LARGEST:
        raise BadRequest("Last-Event-ID is not the number of an event")
    return int(text)
