"""Pays for the engine's steps from budgets: the worst case is set aside before a step, what it was is counted after."""

from __future__ import annotations

import math

from crucible.accounts.amounts import MICRO, Amount, Measure
from crucible.accounts.budgets import Budgets, Reservation
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices, Tokens
from crucible.accounts.scopes import session_scope, user_scope
from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import Limits
from crucible.agent.seams import Spend

_MOST_KNOWN = 10_000


class BudgetPurse:
    """Charges the session and its user. A session's own limits are written down when they are first met."""

    def __init__(self, budgets: Budgets, prices: Prices) -> None:
        self._budgets = budgets
        self._prices = prices
        self._written: dict[str, Limits] = {}

    async def reserve(self, spend: Spend) -> _Held:
        await self._write_limits(spend.session, spend.limits)
        model, read = spend.model, self._most_read(spend)
        amount = Amount(
            tokens=read + spend.output_tokens,
            usd=self._worst(model, read, spend.output_tokens) if model else 0,
            sandbox_seconds=math.ceil(spend.sandbox_s),
            iterations=spend.iterations,
            calls=spend.calls,
            model=str(model) if model else "",
        )
        scopes = (session_scope(spend.session), user_scope(spend.user))
        return _Held(await self._budgets.reserve(scopes, amount), self._prices, model)

    def _most_read(self, spend: Spend) -> int:
        """A provider refuses what is longer than its model can read, and takes nothing for that."""
        model = spend.model
        window = self._prices.context_window(model.provider, model.name) if model else None
        return spend.input_tokens if window is None else min(spend.input_tokens, window)

    def _worst(self, model: ModelRef, read: int, written: int) -> int | None:
        return self._prices.worst_case(
            model.provider, model.name, input_tokens=read, output_tokens=written
        )

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
    def __init__(self, reservation: Reservation, prices: Prices, model: ModelRef | None) -> None:
        self._reservation = reservation
        self._prices = prices
        self._model = model

    async def settle(
        self,
        *,
        usage: Usage | None = None,
        sandbox_s: float = 0.0,
        iterations: int = 0,
        calls: int = 0,
    ) -> float | None:
        tokens = usage or Usage()
        cost = self._cost(tokens)
        await self._reservation.settle(
            Amount(
                tokens=tokens.input_tokens + tokens.output_tokens,
                usd=cost,
                sandbox_seconds=math.ceil(sandbox_s),
                iterations=iterations,
                calls=calls,
                model=str(self._model) if self._model else "",
            )
        )
        return None if cost is None else cost / MICRO

    def _cost(self, usage: Usage) -> int | None:
        if self._model is None:
            return 0
        tokens = Tokens(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
        )
        return self._prices.cost(self._model.provider, self._model.name, tokens)


def _amounts(limits: Limits) -> dict[Measure, int | None]:
    """Rounded down, so that a limit is never more than what was said."""
    return {
        Measure.TOKENS: limits.tokens,
        Measure.USD: None if limits.usd is None else int(limits.usd * MICRO),
        Measure.SANDBOX_SECONDS: None if limits.sandbox_s is None else int(limits.sandbox_s),
        Measure.ITERATIONS: limits.iterations,
        Measure.CALLS: limits.calls,
    }
