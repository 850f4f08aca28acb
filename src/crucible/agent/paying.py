"""Pays for the engine's steps from budgets: the worst case is set aside before a step, what it was is counted after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crucible.accounts.amounts import MICRO, Amount, Measure
from crucible.accounts.budgets import Budgets, Reservation
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices, Tokens
from crucible.accounts.scopes import session_scope, user_scope
from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import Limits
from crucible.agent.seams import MostOf, Spend

_MOST_KNOWN = 10_000


class BudgetPurse:
    """Charges the session and its user. A session's own limits are written down when they are first met."""

    def __init__(self, budgets: Budgets, prices: Prices) -> None:
        self._budgets = budgets
        self._prices = prices
        self._written: dict[str, Limits] = {}

    async def reserve(self, spend: Spend) -> _Held:
        await self._write_limits(spend.session, spend.limits)
        step = Amount(
            sandbox_seconds=math.ceil(spend.sandbox_s),
            iterations=spend.iterations,
            calls=spend.calls,
        )
        worst = {one.model: self._worst(one, step) for one in spend.models}
        scopes = (session_scope(spend.session), user_scope(spend.user))
        amount = _dearest(tuple(worst.values())) if worst else step
        return _Held(await self._budgets.reserve(scopes, amount), self._prices, worst)

    def _worst(self, most: MostOf, step: Amount) -> Amount:
        """A provider refuses what is longer than its model can read, and takes nothing for that."""
        provider, name = most.model.provider, most.model.name
        window = self._prices.context_window(provider, name)
        read = most.input_tokens if window is None else min(most.input_tokens, window)
        usd = self._prices.worst_case(
            provider, name, input_tokens=read, output_tokens=most.output_tokens
        )
        return replace(step, tokens=read + most.output_tokens, usd=usd, model=str(most.model))

    async def _write_limits(self, session: str, limits: Limits) -> None:
        if self._written.get(session, Limits()) == limits:
            return
        scope = session_scope(session)
        for measure, amount in _amounts(limits).items():
            if amount is None:
                await self._budgets.clear_limit(scope, measure, Period.TOTAL)
            else:
                limit = Limit(measure=measure, period=Period.TOTAL, amount=amount)
                await self._budgets.set_limit(scope, limit)
        if len(self._written) >= _MOST_KNOWN:
            self._written.clear()
        self._written[session] = limits


class _Held:
    def __init__(
        self, reservation: Reservation, prices: Prices, worst: Mapping[ModelRef, Amount]
    ) -> None:
        self._reservation = reservation
        self._prices = prices
        self._worst = worst

    async def settle(
        self,
        *,
        usage: Usage | None = None,
        model: ModelRef | None = None,
        sandbox_s: float = 0.0,
        iterations: int = 0,
        calls: int = 0,
    ) -> float | None:
        tokens = usage or Usage()
        cost = self._cost(model, tokens) if model else 0
        await self._reservation.settle(
            Amount(
                tokens=tokens.input_tokens + tokens.output_tokens,
                usd=cost,
                sandbox_seconds=math.ceil(sandbox_s),
                iterations=iterations,
                calls=calls,
                model=str(model) if model else "",
            )
        )
        return None if cost is None else cost / MICRO

    async def settle_at_worst(self, model: ModelRef) -> None:
        await self._reservation.settle(self._worst.get(model))

    def _cost(self, model: ModelRef, usage: Usage) -> int | None:
        tokens = Tokens(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
        )
        return self._prices.cost(model.provider, model.name, tokens)


def _dearest(amounts: Sequence[Amount]) -> Amount:
    """One that no other is more than, in tokens or in USD; one without a known price is the dearest."""
    dear = max(amounts, key=lambda one: math.inf if one.usd is None else one.usd)
    return replace(dear, tokens=max(one.tokens for one in amounts))


def _amounts(limits: Limits) -> dict[Measure, int | None]:
    """Rounded down, so that a limit is never more than what was said."""
    return {
        Measure.TOKENS: limits.tokens,
        Measure.USD: None if limits.usd is None else int(limits.usd * MICRO),
        Measure.SANDBOX_SECONDS: None if limits.sandbox_s is None else int(limits.sandbox_s),
        Measure.ITERATIONS: limits.iterations,
        Measure.CALLS: limits.calls,
    }
