"""Who calls, and what that caller may do."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from crucible.errors import Forbidden, SandboxMissing, SnapshotMissing, Unauthenticated
from crucible.server.callers import OWNER as OWNED_BY
from crucible.server.callers import TOKEN
from crucible.server.callers import Caller as Caller
from crucible.server.cookies import check_own_page, given_cookie
from crucible.server.domain import Domain, domain_of
from crucible.server.tokens import Scope, find_token, is_good

NAME_PARAMETER = "name"
TAG_PARAMETER = "tag"
# Where a name is not a sandbox's.
OTHER_NAMES = "/api/v1/settings/"

ANYBODY = Caller(id="anybody", scope=Scope.READ, sandbox="none", user="")


def owner_caller() -> Caller:
    """Whoever is at the other end of our own socket: the user whose sandboxes these are."""
    return Caller(id=f"{OWNED_BY}{os.getuid()}", scope=Scope.ADMIN)


def token_caller(domain: Domain, connection: HTTPConnection) -> Caller:
    """By `Authorization: Bearer` or `X-API-Key`. Raises Unauthenticated."""
    return caller_with(domain, given_token(connection))


def caller_with(domain: Domain, text: str) -> Caller:
    if not text:
        raise Unauthenticated
    token = find_token(domain.store, text)
    if token is None:
        raise Unauthenticated("The token is unknown, revoked or expired")
    return Caller(
        id=f"{TOKEN}{token.id}", scope=token.scope, sandbox=token.sandbox, user=token.user
    )


async def ticket_caller(domain: Domain, connection: HTTPConnection, text: str) -> Caller:
    """A ticket for one terminal, and as good as what it was made with still is. Raises Unauthenticated."""
    caller = domain.tickets.redeem(text, connection.scope["path"])
    if caller.session:
        await domain.people.check_session(caller.session)
    if caller.token and not is_good(domain.store, caller.token):
        raise Unauthenticated("The token that the ticket was made with is revoked or expired")
    return caller


async def cookie_caller(domain: Domain, connection: HTTPConnection) -> Caller | None:
    """Whose browser this is, if it is signed in. Raises RequestForged if another's page may have sent it."""
    cookie = given_cookie(connection)
    caller = await domain.people.caller(domain.access.mode, cookie) if cookie else None
    if caller is not None:
        check_own_page(connection, cookie)
    return caller


def given_token(connection: HTTPConnection) -> str:
    kind, _, rest = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return rest.strip()
    return connection.headers.get("x-api-key", "")


def caller_of(connection: HTTPConnection) -> Caller:
    """The gate has found out who it is."""
    caller: Caller = connection.state.caller
    return caller


def allow(connection: HTTPConnection, scope: Scope) -> None:
    """Raises Forbidden. A caller that has one sandbox may only go where that is named."""
    caller = caller_of(connection)
    if not caller.scope.includes(scope):
        raise Forbidden(f"This needs a token with scope {scope.value!r}")
    check_owner(connection)
    if caller.sandbox:
        name = connection.path_params.get(NAME_PARAMETER)
        record = domain_of(connection).manager.records.find(name) if name else None
        if record is None or record.id != caller.sandbox:
            raise Forbidden("This token is for one sandbox alone")


def check_owner(connection: HTTPConnection) -> None:
    """What the path names must be the caller's own, or it is missing. Raises SandboxMissing, SnapshotMissing."""
    caller = caller_of(connection)
    if caller.sees_all:
        return
    records = domain_of(connection).manager.records
    name = connection.path_params.get(NAME_PARAMETER)
    if connection.scope["path"].startswith(OTHER_NAMES):
        name = None
    if name is not None and not caller.sees(records.find(name).owner):
        raise SandboxMissing(name)
    tag = connection.path_params.get(TAG_PARAMETER)
    if tag is not None and not caller.sees(records.find_snapshot(tag).owner):
        raise SnapshotMissing(tag)


async def _is_anybody(connection: HTTPConnection) -> None:
    """A decision all the same: nothing about this route depends on who calls."""


async def _is_signed_in(connection: HTTPConnection) -> None:
    if not caller_of(connection).user:
        raise Unauthenticated("Nobody is signed in")


async def _is_owner(connection: HTTPConnection) -> None:
    if not caller_of(connection).id.startswith(OWNED_BY):
        raise Forbidden("This is for who comes over the machine's own socket alone")


async def _may_administer_users(connection: HTTPConnection) -> None:
    """A token made once could not be taken from who is an administrator no more: people only, and the owner."""
    caller = caller_of(connection)
    allow(connection, Scope.ADMIN)
    if not caller.session and not caller.id.startswith(OWNED_BY):
        raise Forbidden("Users are administered by who is signed in, not by tokens")


async def _may_read(connection: HTTPConnection) -> None:
    allow(connection, Scope.READ)


async def _may_run(connection: HTTPConnection) -> None:
    allow(connection, Scope.RUN)


async def _may_administer(connection: HTTPConnection) -> None:
    allow(connection, Scope.ADMIN)


# Also for who may do nothing but come in.
FOR_ANYBODY = Depends(_is_anybody)
SIGNED_IN = Depends(_is_signed_in)
OWNER = Depends(_is_owner)
MAY_ADMINISTER_USERS = Depends(_may_administer_users)
MAY_READ = Depends(_may_read)
MAY_RUN = Depends(_may_run)
MAY_ADMINISTER = Depends(_may_administer)


async def _the_domain(connection: HTTPConnection) -> Domain:
    # What is not asynchronous would be called in a thread.
    return domain_of(connection)


async def _the_caller(connection: HTTPConnection) -> Caller:
    return caller_of(connection)


TheDomain = Annotated[Domain, Depends(_the_domain)]
TheCaller = Annotated[Caller, Depends(_the_caller)]
