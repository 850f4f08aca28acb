"""Prompts in conversations: asked, edited, asked again, branched. A turn lives on when whoever asked leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from crucible.agent.facts import Attachment
from crucible.conversations.facts import Found
from crucible.errors import BadRequest
from crucible.sandbox.finishing import finish
from crucible.server.auth import MAY_RUN, TheCaller, TheDomain
from crucible.server.belonging import OWN_CONVERSATION, conversations_of
from crucible.server.defaults import session_options
from crucible.server.models.agent import SessionWanted
from crucible.server.models.conversations import (
    BranchWanted,
    ChatTold,
    ChatWanted,
    ConversationTold,
    EditWanted,
)
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id

if TYPE_CHECKING:
    from crucible.agent.engine import Engine
    from crucible.agent.facts import Intent
    from crucible.agent.turn import Turn

router = APIRouter(prefix=PREFIX, tags=["chat"], route_class=OnceRoute)


@router.post("/chat", status_code=202, dependencies=[MAY_RUN, IDEMPOTENT], operation_id="chat")
async def chat(asked: ChatWanted, domain: TheDomain, caller: TheCaller) -> ChatTold:
    """Answers when the files are in the workspace and the turn has begun. What comes of it is told by
    `GET /sessions/{conversation}/events` after `after`."""
    engine = await domain.engine.get()
    known = conversations_of(engine)
    id = asked.conversation
    if id is not None and asked.options is not None:
        raise BadRequest("Options are for a new conversation; this one has its own")
    if id is not None:
        await known.get(id, caller.user)
    known.pace.spend(caller.user)
    if id is not None:
        return _told(
            id, await _begin(engine, id, caller.user, asked.prompt, asked.attachments, asked.intent)
        )
    options = await session_options(domain, asked.options or SessionWanted(), caller)
    id = (await engine.create_session(options)).id
    try:
        await known.create(id, caller.user, title=options.title, prompt=asked.prompt)
        turn = await _begin(engine, id, caller.user, asked.prompt, asked.attachments, asked.intent)
    except BaseException:
        await finish(engine.destroy(id))
        raise
    return _told(id, turn)


@router.post(
    "/conversations/{id}/edit",
    status_code=202,
    dependencies=[MAY_RUN, OWN_CONVERSATION, IDEMPOTENT],
    operation_id="editTurn",
)
async def edit(id: Id, asked: EditWanted, domain: TheDomain, caller: TheCaller) -> ChatTold:
    """Takes back that turn and all after it, and asks anew. The sandbox stays as it is."""
    engine = await domain.engine.get()
    conversations_of(engine).pace.spend(caller.user)
    turn = await _begin(
        engine,
        id,
        caller.user,
        asked.prompt,
        asked.attachments,
        None,
        instead_of=asked.turn,
        kept=tuple(asked.kept),
    )
    return _told(id, turn)


@router.post(
    "/conversations/{id}/retry",
    status_code=202,
    dependencies=[MAY_RUN, OWN_CONVERSATION],
    operation_id="retryTurn",
)
async def retry(id: Id, domain: TheDomain, caller: TheCaller) -> ChatTold:
    """The last prompt again, in the place of what came of it."""
    engine = await domain.engine.get()
    conversations_of(engine).pace.spend(caller.user)
    return _told(id, await engine.retry(id))


@router.post(
    "/conversations/{id}/branch",
    status_code=201,
    dependencies=[MAY_RUN, OWN_CONVERSATION, IDEMPOTENT],
    operation_id="branchConversation",
)
async def branch(id: Id, asked: BranchWanted, domain: TheDomain) -> ConversationTold:
    """A new conversation with the turns up to and with that one, and a copy of the sandbox where there can be one."""
    engine = await domain.engine.get()
    facts = await engine.branch_turn(id, asked.turn)
    try:
        made = await conversations_of(engine).branched(id, facts.id, facts.turns)
    except BaseException:
        await finish(engine.destroy(facts.id))
        raise
    return ConversationTold.of(Found(conversation=made), facts)


async def _begin(
    engine: Engine,
    id: str,
    user: str,
    prompt: str,
    attachments: list[str],
    intent: Intent | None,
    *,
    instead_of: int | None = None,
    kept: tuple[str, ...] = (),
) -> Turn:
    known = conversations_of(engine)
    given = await known.uploads.use(attachments, user, id)
    files = tuple(
        Attachment(name=one.name, media_type=one.media_type, size=one.size, path=one.path)
        for one in given
    )
    try:
        turn = await engine.begin(
            id, prompt, intent=intent, attachments=files, instead_of=instead_of, kept=kept
        )
    except BaseException:
        # What was used before stays used; the rest may be used by another.
        await finish(known.uploads.let_go([one.id for one in given if not one.conversation]))
        raise
    await known.prompted(id, prompt)
    return turn


def _told(id: str, turn: Turn) -> ChatTold:
    return ChatTold(conversation=id, turn=turn.number, after=turn.first_event - 1)
