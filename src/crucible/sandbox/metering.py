"""Calls of models that a sandbox's own programs make, charged to budgets: the meter that its gateway asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crucible.accounts.amounts import Amount, Measure, parse_amount
from crucible.accounts.budgets import Budgets, Reservation, Standing
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices, Tokens
from crucible.accounts.scopes import sandbox_scope
from crucible.errors import BudgetSpent, CrucibleError, PriceUnknown
from crucible.network.metering import Admission, ModelCall, Refusal, Usage
from crucible.sandbox.spec import SandboxSpec
from crucible.store.database import Database


class Accounts:
    """What calls are charged to, and by which prices. The database is opened at first use."""

    def __init__(self, database: Database, prices: Prices) -> None:
        self.database = database
        self.budgets = Budgets(database)
        self.prices = prices

    @classmethod
    def of(cls, database: Database, environment: Mapping[str, str]) -> Accounts:
        """With prices as the user has set them. Loads their table, so that no call has to wait for it."""
        prices = Prices.of_environment(environment)
        prices.load()
        return cls(database, prices)

    def meter(self, sandbox: str, spec: SandboxSpec) -> SandboxMeter:
        """For the programs of one sandbox, by its id."""
        return SandboxMeter(self, sandbox, spec)

    async def standings(self, sandbox: str) -> list[Standing]:
        """How the budget of its own stands."""
        return await self.budgets.remaining([sandbox_scope(sandbox)])


class BudgetMeter:
    """Charges every call to all of its `scopes`. A call is granted only if it fits each of them at its worst."""

    def __init__(self, budgets: Budgets, prices: Prices, scopes: Sequence[str]) -> None:
        self._budgets = budgets
        self._prices = prices
        self.scopes = tuple(scopes)

    async def is_binding(self) -> bool:
        """A limit of any scope, or of the plan that the user among them has. What cannot be read binds."""
        try:
            return bool(await self._budgets.remaining(self.scopes))
        except CrucibleError:
            return True

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


class SandboxMeter(BudgetMeter):
    """Of a sandbox with limits of its own, which are written down before the first call."""

    def __init__(self, accounts: Accounts, sandbox: str, spec: SandboxSpec) -> None:
        self._own = sandbox_scope(sandbox)
        self._spec = spec
        self._is_prepared = False
        super().__init__(accounts.budgets, accounts.prices, [self._own, *spec.charges])

    async def is_binding(self) -> bool:
        return bool(self._spec.budget_tokens or self._spec.budget_usd) or await super().is_binding()

    async def admit(self, call: ModelCall) -> Admission | Refusal:
        try:
            if not self._is_prepared:
                await prepare_limits(self._budgets, self._own, self._spec)
                await self._budgets.settle_lost()
                self._is_prepared = True
        except CrucibleError as error:
            return Refusal(kind="broken", reason=error.message)
        return await super().admit(call)


async def prepare_limits(budgets: Budgets, scope: str, spec: SandboxSpec) -> None:
    """Those of the specification, unless somebody has set others meanwhile."""
    known = {standing.measure for standing in await budgets.remaining([scope])}
    wanted = {
        Measure.TOKENS: spec.budget_tokens,
        Measure.USD: parse_amount(Measure.USD, f"{spec.budget_usd:.6f}"),
    }
    for measure, amount in wanted.items():
        if amount and measure not in known:
            limit = Limit(measure=measure, period=Period.TOTAL, amount=amount)
            await budgets.set_limit(scope, limit)


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
