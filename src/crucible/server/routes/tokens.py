"""Tokens: made, listed and revoked by who may; of one sandbox by who may use that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field

from crucible.errors import Forbidden
from crucible.server.auth import MAY_RUN, TheCaller, TheDomain
from crucible.server.callers import Caller
from crucible.server.models.base import Asked, Name, Page, Told
from crucible.server.paging import Cursor, Limit, page
from crucible.server.passage import passage_of
from crucible.server.routes import PREFIX
from crucible.server.tokens import (
    LONGEST_NAME,
    Scope,
    Token,
    create_token,
    list_tokens,
    revoke_token,
)

router = APIRouter(prefix=PREFIX, tags=["tokens"])

LONGEST_LIFE_S = 10 * 365 * 86400.0


class NewToken(Asked):
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    scope: Scope = Scope.RUN
    lifetime_s: Annotated[float, Field(gt=0, le=LONGEST_LIFE_S)] | None = None


class TokenFacts(Told):
    id: str
    name: str
    scope: Scope
    sandbox: str = Field(description="The id of the only one it is good for; empty for all")
    created_at: float
    expires_at: float | None

    @classmethod
    def of(cls, token: Token) -> TokenFacts:
        names = ("id", "name", "scope", "sandbox", "created_at", "expires_at")
        return cls(**{name: getattr(token, name) for name in names})


class MadeToken(TokenFacts):
    token: str = Field(description="Told this once; only a hash of it is kept")


@router.post("/tokens", status_code=201, dependencies=[MAY_RUN], operation_id="createToken")
async def create(asked: NewToken, domain: TheDomain, caller: TheCaller) -> MadeToken:
    """It acts for who made it, and may do no more: people who are signed in make their own, else `admin` is needed."""
    _check_maker(caller)
    if not caller.scope.includes(asked.scope):
        raise Forbidden("A token may do no more than who makes it")
    token, text = create_token(
        domain.store,
        asked.name,
        scope=asked.scope,
        lifetime_s=asked.lifetime_s,
        user=caller.user,
    )
    return MadeToken(**TokenFacts.of(token).model_dump(), token=text)


@router.get("/tokens", dependencies=[MAY_RUN], operation_id="listTokens")
async def list_all(
    domain: TheDomain, caller: TheCaller, limit: Limit = 100, cursor: Cursor = None
) -> Page[TokenFacts]:
    _check_maker(caller)
    return page(
        list_tokens(domain.store, caller.user),
        key=lambda one: one.id,
        show=TokenFacts.of,
        limit=limit,
        cursor=cursor,
    )


@router.delete("/tokens/{id}", status_code=204, dependencies=[MAY_RUN], operation_id="revokeToken")
async def revoke(
    id: Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")],
    domain: TheDomain,
    caller: TheCaller,
    request: Request,
) -> None:
    """Answers that go on and came by it end."""
    _check_maker(caller)
    revoke_token(domain.store, id, caller.user)
    await domain.visits.look(passage_of(request))


@router.post(
    "/sandboxes/{name}/tokens",
    status_code=201,
    dependencies=[MAY_RUN],
    operation_id="createSandboxToken",
)
async def create_for_sandbox(
    name: Name, asked: NewToken, domain: TheDomain, caller: TheCaller
) -> MadeToken:
    """Good for this sandbox alone, and gone with it. Nobody gives away more than it has."""
    if asked.scope is Scope.ADMIN or not caller.scope.includes(asked.scope):
        raise Forbidden(
            "A token of one sandbox has scope 'read' or 'run', and no more than its maker's"
        )
    record = domain.manager.records.find(name)
    token, text = create_token(
        domain.store,
        asked.name,
        scope=asked.scope,
        lifetime_s=asked.lifetime_s,
        sandbox=record.id,
        user=caller.user,
    )
    return MadeToken(**TokenFacts.of(token).model_dump(), token=text)


def _check_maker(caller: Caller) -> None:
    """A token that may make others could never be taken back."""
    if not caller.session and not caller.scope.includes(Scope.ADMIN):
        raise Forbidden("This needs a token with scope 'admin'")
