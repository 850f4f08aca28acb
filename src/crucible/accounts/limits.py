"""Which limits hold for a scope: those set for it, then those of its user's plan."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, delete, select

from crucible.accounts.amounts import Measure
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit, plan_limits
from crucible.accounts.scopes import kind_of, name_of, plan_scope
from crucible.errors import BadSetting
from crucible.store.tables.accounts import limits, users

_PERIODS = {
    "session": (Period.TOTAL,),
    "sandbox": (Period.TOTAL,),
    "user": (Period.TOTAL, Period.MONTH, Period.DAY),
    "plan": (Period.MONTH, Period.DAY, Period.SESSION),
}

_LIMITS = select(limits).where(limits.c.scope.in_(bindparam("scopes", expanding=True)))
_PLAN = select(users.c.plan).where(users.c.id.in_(bindparam("ids", expanding=True)))

Own = dict[tuple[str, Measure, Period], int]


def limits_of(connection: Connection, scopes: Sequence[str]) -> dict[str, tuple[Limit, ...]]:
    """For each scope, those that hold now. A session has those of the plan of the user beside it."""
    plan = _plan(connection, scopes)
    own = _own(connection, [*scopes, *([plan_scope(plan)] if plan else [])])
    return {scope: _merged(scope, plan, own) for scope in scopes}


def set_limit(connection: Connection, scope: str, limit: Limit) -> None:
    """In the place of the one that was. Raises BadSetting for a period that this scope cannot have."""
    allowed = _PERIODS[kind_of(scope)]
    if limit.period not in allowed:
        raise BadSetting(
            f"A {kind_of(scope)} has no budget for each {limit.period}",
            hint=f"Use one of {', '.join(allowed)}",
        )
    clear_limit(connection, scope, limit.measure, limit.period)
    row = {"measure": str(limit.measure), "period": str(limit.period), "amount": limit.amount}
    connection.execute(limits.insert(), {"scope": scope, **row})


def clear_limit(
    connection: Connection, scope: str, measure: Measure | None, period: Period | None
) -> None:
    """Without a measure or a period, of all of them."""
    wanted = [limits.c.scope == scope]
    if measure is not None:
        wanted.append(limits.c.measure == str(measure))
    if period is not None:
        wanted.append(limits.c.period == str(period))
    connection.execute(delete(limits).where(and_(*wanted)))


def _plan(connection: Connection, scopes: Sequence[str]) -> str:
    ids = [name_of(scope) for scope in scopes if kind_of(scope) == "user"]
    if not ids:
        return ""
    return str(connection.execute(_PLAN, {"ids": ids}).scalar() or "")


def _own(connection: Connection, scopes: Sequence[str]) -> Own:
    rows = connection.execute(_LIMITS, {"scopes": list(scopes)})
    return {(row.scope, Measure(row.measure), Period(row.period)): int(row.amount) for row in rows}


def _merged(scope: str, plan: str, own: Own) -> tuple[Limit, ...]:
    found = _of_plan(scope, plan, own)
    found |= {key[1:]: amount for key, amount in own.items() if key[0] == scope}
    return tuple(
        Limit(measure=measure, period=period, amount=amount)
        for (measure, period), amount in sorted(found.items())
    )


def _of_plan(scope: str, plan: str, own: Own) -> dict[tuple[Measure, Period], int]:
    """The plan as it is shipped, with what this installation has set for it, seen from one scope."""
    if not plan or kind_of(scope) not in ("user", "session"):
        return {}
    whole = {(limit.measure, limit.period): limit.amount for limit in plan_limits(plan)}
    whole |= {key[1:]: amount for key, amount in own.items() if key[0] == plan_scope(plan)}
    if kind_of(scope) == "session":
        return {
            (measure, Period.TOTAL): amount
            for (measure, period), amount in whole.items()
            if period is Period.SESSION
        }
    return {key: amount for key, amount in whole.items() if key[1] is not Period.SESSION}
