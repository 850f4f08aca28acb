"""Plans as data: named sets of limits that hold for every user who has the plan, and for each of their sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from crucible.accounts.amounts import Measure, parse_amount
from crucible.accounts.periods import Period
from crucible.errors import PlanMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most so much of a measure within a period. USD is in millionths."""

    measure: Measure
    period: Period
    amount: int


@cache
def plans() -> Mapping[str, tuple[Limit, ...]]:
    import tomllib
    from importlib.resources import files

    text = (files("crucible.accounts") / "plans.toml").read_text(encoding="utf-8")
    return {
        name: tuple(
            Limit(
                measure=Measure(measure),
                period=Period(period),
                amount=parse_amount(Measure(measure), str(amount)),
            )
            for measure, periods in table.items()
            for period, amount in periods.items()
        )
        for name, table in tomllib.loads(text).items()
    }


def plan_limits(name: str) -> tuple[Limit, ...]:
    """Raises PlanMissing."""
    found = plans().get(name)
    if found is None:
        raise PlanMissing(name, plans())
    return found
