"""A prompt in a conversation, which is made if there is none yet. The turn lives on when whoever asked leaves."""

from __future__ import annotations

from fastapi import APIRouter

from crucible.errors import BadRequest
from crucible.sandbox.finishing import finish
from crucible.server.auth import MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import conversations_of
from crucible.server.defaults import session_options
from crucible.server.models.agent import SessionWanted
from crucible.server.models.conversations import ChatTold, ChatWanted
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["chat"], route_class=OnceRoute)


@router.post("/chat", status_code=202, dependencies=[MAY_RUN, IDEMPOTENT], operation_id="chat")
async def chat(asked: ChatWanted, domain: TheDomain, caller: TheCaller) -> ChatTold:
    """Answers at once. What comes of it is told by `GET /sessions/{conversation}/events` after `after`."""
    engine = await domain.engine.get()
    known = conversations_of(engine)
    id = asked.conversation
    if id is None:
        options = await session_options(domain, asked.options or SessionWanted(), caller)
        id = (await engine.create_session(options)).id
        await known.create(id, caller.user, title=options.title, prompt=asked.prompt)
    elif asked.options is not None:
        raise BadRequest("Options are for a new conversation; this one has its own")
    else:
        await known.get(id, caller.user)
    try:
        turn = await engine.begin(id, asked.prompt, intent=asked.intent)
    except BaseException:
        if asked.conversation is None:
            await finish(engine.destroy(id))
        raise
    if asked.conversation is not None:
        await known.prompted(id, asked.prompt)
    return ChatTold(conversation=id, turn=turn.number, after=turn.first_event - 1)
