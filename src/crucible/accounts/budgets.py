"""Budgets: whoever is about to spend reserves the worst case first, and says afterwards what it was.

A limit is never overshot, because what is reserved counts as if it were spent. So a call whose process died keeps
counting in full: nobody can say what it cost, and the other guess could overshoot. Who does know settles it, even late.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection

from crucible.accounts import spending
from crucible.accounts.amounts import Amount, Measure
from crucible.accounts.limits import clear_limit, limits_of, set_limit
from crucible.accounts.owners import is_gone, own_mark
from crucible.accounts.periods import Period, day_of, resets_at
from crucible.accounts.plans import Limit
from crucible.accounts.scopes import check_scope
from crucible.errors import BudgetSpent, PriceUnknown
from crucible.store.database import Database

# Longer than any call takes. Past it a reservation counts as spent, which changes no sum.
LEASE_S: Final = 86_400.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one limit of one scope stands. USD is in millionths; `resets_at` is 0.0 for never."""

    scope: str
    measure: Measure
    period: Period
    limit: int
    spent: int
    reserved: int
    resets_at: float

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.spent - self.reserved)


class Reservation:
    """Settle or release it once; what comes after that is ignored."""

    def __init__(self, budgets: Budgets, held: spending.Held) -> None:
        self._budgets = budgets
        self.id = held.id
        self.scopes = held.scopes
        self.amount = held.amount
        self.is_settled = False

    async def settle(self, actual: Amount | None = None) -> bool:
        """What it really was; without it, the worst case. True if it was more than what was reserved."""
        if self.is_settled:
            return False
        self.is_settled = True
        try:
            return await self._budgets.settle(self.id, actual or self.amount)
        except BaseException:
            self.is_settled = False
            raise

    async def release(self) -> None:
        """Nothing was spent."""
        await self.settle(Amount())


class Budgets:
    """On one database, by any number of processes. `clock` is for tests."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def reserve(
        self, scopes: Iterable[str], amount: Amount, *, lease_s: float = LEASE_S
    ) -> Reservation:
        """Raises BudgetSpent, and PriceUnknown where USD are limited and `amount` does not know them."""
        charged = tuple(sorted({check_scope(scope) for scope in scopes}))
        now = self._clock()
        held = spending.Held(
            id=secrets.token_hex(12), scopes=charged, day=day_of(now), amount=amount
        )

        def work(connection: Connection) -> None:
            spending.take_turns(connection, charged)
            for standing in _standings(connection, charged, held.day):
                _check(standing, amount)
            spending.hold(connection, held, own_mark(), now + lease_s)

        reserving = asyncio.ensure_future(self._database.run(work))
        try:
            await asyncio.shield(reserving)
        except asyncio.CancelledError:
            # It may have been written already, and nobody else knows of it.
            with contextlib.suppress(Exception):
                await reserving
                await self.settle(held.id, Amount())
            raise
        return Reservation(self, held)

    async def settle(self, id: str, actual: Amount) -> bool:
        """By its id, for whoever finds out late. True if it was more than what was reserved."""
        return bool(await self._surely(lambda connection: spending.settle(connection, id, actual)))

    async def remaining(self, scopes: Iterable[str]) -> list[Standing]:
        """Every limit that holds for them."""
        charged = sorted({check_scope(scope) for scope in scopes})
        day = day_of(self._clock())
        return await self._database.read(lambda connection: _standings(connection, charged, day))

    async def spent(self, scope: str) -> spending.Sums:
        """In all, with what is reserved now."""
        check_scope(scope)

        def work(connection: Connection) -> spending.Sums:
            found = spending.sums_of(connection, [scope], Period.TOTAL, "")
            return found.get(scope, spending.NOTHING)

        return await self._database.read(work)

    async def charged(self) -> list[str]:
        """Every scope that something was ever reserved for."""
        return await self._database.read(spending.charged_scopes)

    async def set_limit(self, scope: str, limit: Limit) -> None:
        """A limit below what is spent refuses all that follows. Raises BadSetting."""
        check_scope(scope)
        await self._surely(lambda connection: set_limit(connection, scope, limit))

    async def clear_limit(
        self, scope: str, measure: Measure | None = None, period: Period | None = None
    ) -> None:
        check_scope(scope)
        await self._surely(lambda connection: clear_limit(connection, scope, measure, period))

    async def settle_lost(self) -> int:
        """Counts reservations as spent whose process has ended, or that are older than their lease."""
        now = self._clock()
        found = await self._database.read(spending.open_reservations)
        lost = [id for id, owner, expires_at in found if expires_at < now or is_gone(owner)]
        count = 0
        for id in lost:
            count += await self._surely(partial(spending.lose, id=id))
        await self._surely(lambda connection: spending.forget_lost(connection, now))
        return count

    async def _surely(self, work: Callable[[Connection], T]) -> T:
        """Done even if whoever waits for it is cancelled."""
        return await asyncio.shield(asyncio.ensure_future(self._database.run(work)))


def _standings(connection: Connection, charged: Sequence[str], day: str) -> list[Standing]:
    limits = limits_of(connection, charged)
    periods = {limit.period for found in limits.values() for limit in found}
    sums = {
        period: spending.sums_of(connection, charged, period, day) for period in sorted(periods)
    }
    standings = []
    for scope, found in limits.items():
        for limit in found:
            known = sums[limit.period].get(scope, spending.NOTHING)
            standings.append(
                Standing(
                    scope=scope,
                    measure=limit.measure,
                    period=limit.period,
                    limit=limit.amount,
                    spent=known.spent.of(limit.measure),
                    reserved=known.reserved.of(limit.measure),
                    resets_at=resets_at(limit.period, day),
                )
            )
    return standings


def _check(standing: Standing, amount: Amount) -> None:
    if standing.measure is Measure.USD and amount.usd is None:
        raise PriceUnknown(amount.model or "this model", standing.scope)
    wanted = amount.of(standing.measure)
    if wanted and standing.spent + standing.reserved + wanted > standing.limit:
        raise BudgetSpent(
            scope=standing.scope,
            measure=str(standing.measure),
            period=str(standing.period),
            limit=standing.limit,
            spent=standing.spent,
            reserved=standing.reserved,
            wanted=wanted,
            resets_at=standing.resets_at,
        )
