"""Calls of models that a sandbox's own programs make, charged to budgets: the meter that its gateway asks."""

from __future__ import annotations

from collections.abc import Sequence

from crucible.accounts.amounts import Amount
from crucible.accounts.budgets import Budgets, Reservation
from crucible.accounts.prices import Prices, Tokens
from crucible.errors import BudgetSpent, CrucibleError, PriceUnknown
from crucible.network.metering import Admission, ModelCall, Refusal, Usage


class BudgetMeter:
    """Charges every call to all of its `scopes`. A call is granted only if it fits each of them at its worst."""

    def __init__(self, budgets: Budgets, prices: Prices, scopes: Sequence[str]) -> None:
        self._budgets = budgets
        self._prices = prices
        self.scopes = tuple(scopes)

    async def admit(self, call: ModelCall) -> Admission | Refusal:
        window = self._prices.context_window(call.provider, call.model)
        known = [bound for bound in (call.input_tokens, window) if bound is not None]
        if not known:
            reason = f"nobody knows how much {call.model} can be given, so only text is counted"
            return Refusal(kind="unmetered", reason=reason)
        try:
            worst = self._worst(call, min(known))
            reservation = await self._budgets.reserve(self.scopes, worst)
        except BudgetSpent as error:
            return Refusal(kind="budget", reason=error.message, resets_at=error.resets_at)
        except PriceUnknown as error:
            return Refusal(kind="unpriced", reason=f"{error.message}. {error.hint}")
        except CrucibleError as error:
            # What cannot be counted is not granted.
            return Refusal(kind="broken", reason=error.message)
        return _Admission(reservation, self._prices, call)

    def _worst(self, call: ModelCall, input_tokens: int) -> Amount:
        usd = self._prices.worst_case(
            call.provider, call.model, input_tokens=input_tokens, output_tokens=call.output_tokens
        )
        tokens = input_tokens + call.output_tokens
        return Amount(tokens=tokens, usd=usd, calls=1, model=f"{call.provider}:{call.model}")


class _Admission:
    def __init__(self, reservation: Reservation, prices: Prices, call: ModelCall) -> None:
        self._reservation = reservation
        self._prices = prices
        self._call = call

    async def settle(self, usage: Usage | None) -> None:
        if usage is None:
            await self._reservation.settle()
            return
        tokens = Tokens(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
            cache_write_1h=usage.cache_write_1h_tokens,
        )
        usd = self._prices.cost(self._call.provider, self._call.model, tokens)
        await self._reservation.settle(Amount(tokens=tokens.total, usd=usd, calls=1))
