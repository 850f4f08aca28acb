"""What may be spent and was: by the caller's user, by one of their sessions, by a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from pydantic import Field

from crucible.errors import UserMissing
from crucible.server.auth import MAY_READ, TheCaller, TheDomain
from crucible.server.belonging import OWN_SESSION
from crucible.server.domain import Domain
from crucible.server.models.base import Name, Told
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id

if TYPE_CHECKING:
    from crucible.accounts.amounts import Amount
    from crucible.accounts.budgets import Standing

router = APIRouter(prefix=PREFIX, tags=["budgets"])

_MICRO = 1_000_000


class AmountTold(Told):
    tokens: int
    usd: float
    sandbox_seconds: int
    iterations: int
    calls: int

    @classmethod
    def of(cls, amount: Amount) -> AmountTold:
        row = amount.as_row()
        return cls.model_validate({**row, "usd": row["usd"] / _MICRO})


class LimitTold(Told):
    """How one limit stands. What is reserved for calls under way counts as if it were spent."""

    scope: str = Field(description="Whose limit it is, such as `user:ada`")
    measure: str
    period: str
    limit: float
    spent: float
    reserved: float
    remaining: float
    resets_at: float | None = Field(description="Seconds since 1970; null for never")

    @classmethod
    def of(cls, standing: Standing) -> LimitTold:
        scale = _MICRO if standing.measure == "usd" else 1
        amounts = {
            name: getattr(standing, name) / scale
            for name in ("limit", "spent", "reserved", "remaining")
        }
        return cls(
            scope=standing.scope,
            measure=str(standing.measure),
            period=str(standing.period),
            resets_at=standing.resets_at or None,
            **amounts,
        )


class BudgetTold(Told):
    """`spent` and `reserved` are of all time; `limits` are all that hold, and how each of them stands."""

    scope: str
    plan: str = Field(description="Empty for none, and for what is no user")
    spent: AmountTold
    reserved: AmountTold
    overshoots: int = Field(description="Calls that cost more than their worst case")
    limits: list[LimitTold]


@router.get("/budget", dependencies=[MAY_READ], operation_id="getBudget")
async def of_user(domain: TheDomain, caller: TheCaller) -> BudgetTold:
    """Of the caller's user, with the limits of their plan."""
    from crucible.accounts.scopes import user_scope

    try:
        plan = (await (await domain.books.get()).users.find(caller.user)).plan
    except UserMissing:
        plan = ""
    return await _told(domain, user_scope(caller.user), plan)


@router.get(
    "/sessions/{id}/budget", dependencies=[MAY_READ, OWN_SESSION], operation_id="getSessionBudget"
)
async def of_session(id: Id, domain: TheDomain) -> BudgetTold:
    from crucible.accounts.scopes import session_scope

    return await _told(domain, session_scope(id))


@router.get("/sandboxes/{name}/budget", dependencies=[MAY_READ], operation_id="getSandboxBudget")
async def of_sandbox(name: Name, domain: TheDomain) -> BudgetTold:
    """What programs in it have spent on models through the gateway."""
    from crucible.accounts.scopes import sandbox_scope

    return await _told(domain, sandbox_scope(domain.manager.records.find(name).id))


async def _told(domain: Domain, scope: str, plan: str = "") -> BudgetTold:
    budgets = (await domain.books.get()).budgets
    # What a process that died had set aside is no longer under way.
    await budgets.settle_lost()
    sums = await budgets.spent(scope)
    return BudgetTold(
        scope=scope,
        plan=plan,
        spent=AmountTold.of(sums.spent),
        reserved=AmountTold.of(sums.reserved),
        overshoots=sums.overshoots,
        limits=[LimitTold.of(one) for one in await budgets.remaining([scope])],
    )
