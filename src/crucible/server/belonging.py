"""What a user has is there for that user alone: to all others it is missing, not forbidden."""

from __future__ import annotations

from fastapi import Depends
from starlette.requests import HTTPConnection

from crucible.errors import SessionMissing
from crucible.server.auth import caller_of
from crucible.server.domain import domain_of


async def check_session(connection: HTTPConnection, session: str) -> None:
    """Raises SessionMissing."""
    engine = await domain_of(connection).engine.get()
    if (await engine.session(session)).options.user != caller_of(connection).user:
        raise SessionMissing(session[:64])


async def _own_session(connection: HTTPConnection) -> None:
    await check_session(connection, connection.path_params["id"])


OWN_SESSION = Depends(_own_session)
