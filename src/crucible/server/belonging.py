"""What a user has is there for that user alone: to all others it is missing, not forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Depends
from starlette.requests import HTTPConnection

from crucible.errors import (
    RunMissing,
    SandboxMissing,
    SessionMissing,
    SnapshotMissing,
    Unsupported,
)
from crucible.sandbox.records import SandboxRecord, SnapshotRecord
from crucible.server.auth import caller_of
from crucible.server.callers import Caller
from crucible.server.domain import Domain, domain_of

if TYPE_CHECKING:
    from crucible.agent.engine import Engine
    from crucible.conversations.conversations import Conversations


def sandboxes_of(domain: Domain, caller: Caller) -> list[SandboxRecord]:
    return [record for record in domain.manager.records.sandboxes() if caller.sees(record.owner)]


def snapshots_of(domain: Domain, caller: Caller) -> list[SnapshotRecord]:
    """Those that are whole."""
    found = domain.manager.records.snapshots()
    return [record for record in found if record.state == "saved" and caller.sees(record.owner)]


def find_sandbox(domain: Domain, caller: Caller, name: str) -> SandboxRecord:
    """For names that are not in the path: those were checked before any route. Raises SandboxMissing."""
    record = domain.manager.records.find(name)
    if not caller.sees(record.owner):
        raise SandboxMissing(name)
    return record


def find_snapshot(domain: Domain, caller: Caller, tag: str) -> SnapshotRecord:
    """Raises SnapshotMissing."""
    record = domain.manager.records.find_snapshot(tag)
    if not caller.sees(record.owner):
        raise SnapshotMissing(tag)
    return record


async def check_session(connection: HTTPConnection, session: str) -> None:
    """Raises SessionMissing."""
    engine = await domain_of(connection).engine.get()
    if (await engine.session(session)).options.user != caller_of(connection).user:
        raise SessionMissing(session[:64])


async def _own_session(connection: HTTPConnection) -> None:
    await check_session(connection, connection.path_params["id"])


async def check_run(connection: HTTPConnection, run: str) -> None:
    """Raises RunMissing."""
    from functools import partial

    from crucible.ledger.pages import owner_of

    books = await domain_of(connection).books.get()
    if await books.database.read(partial(owner_of, run=run)) != caller_of(connection).user:
        raise RunMissing(run[:64])


async def _own_run(connection: HTTPConnection) -> None:
    await check_run(connection, connection.path_params["id"])


OWN_SESSION = Depends(_own_session)
OWN_RUN = Depends(_own_run)


def conversations_of(engine: Engine) -> Conversations:
    """Raises Unsupported for an engine whose sessions are nobody's conversations."""
    # It comes with the engine: the doors open without a database.
    from crucible.conversations.conversations import Conversations

    found = engine.chronicler
    if not isinstance(found, Conversations):
        raise Unsupported("This server keeps no conversations")
    return found


async def check_conversation(connection: HTTPConnection, conversation: str) -> None:
    """Raises ConversationMissing."""
    engine = await domain_of(connection).engine.get()
    await conversations_of(engine).get(conversation, caller_of(connection).user)


async def _own_conversation(connection: HTTPConnection) -> None:
    await check_conversation(connection, connection.path_params["id"])


OWN_CONVERSATION = Depends(_own_conversation)
