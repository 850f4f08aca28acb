"""Budgets, plans, prices and the users they are for."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class AccountsError(CrucibleError):
    """A budget, a plan or a price stands in the way."""

    code = "accounts"


class BudgetSpent(AccountsError, Refused):
    """What is wanted does not fit what is left. Figures of USD are millionths of one; `resets_at` is 0.0 for never."""

    code = "budget-spent"

    def __init__(
        self,
        *,
        scope: str,
        measure: str,
        period: str,
        limit: int,
        spent: int,
        reserved: int,
        wanted: int,
        resets_at: float = 0.0,
    ) -> None:
        self.scope = scope
        self.measure = measure
        self.period = period
        self.limit = limit
        self.spent = spent
        self.reserved = reserved
        self.wanted = wanted
        self.resets_at = resets_at
        told = f"{shown_amount(measure, spent)} of {shown_amount(measure, limit)} are spent"
        if reserved:
            told += f" and {shown_amount(measure, reserved)} reserved"
        each = "" if period == "total" else f" for each {period}"
        super().__init__(
            f"The budget of {scope}{each} does not allow {shown_amount(measure, wanted)} more: {told}",
            hint=f"It begins anew at {_time(resets_at)}; " + _RAISE
            if resets_at
            else _RAISE[:1].upper() + _RAISE[1:],
        )


class PriceUnknown(AccountsError, Refused):
    code = "price-unknown"

    def __init__(self, model: str, scope: str) -> None:
        super().__init__(
            f"The budget of {scope} is in USD, and nobody knows the price of {model}",
            hint=f"Set it with CRUCIBLE_PRICES='{model}=INPUT/OUTPUT', in USD for a million tokens",
        )


class PlanMissing(AccountsError, Refused):
    code = "plan-missing"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"There is no plan {name[:80]!r}", hint=suggestion(name, known))


class UserMissing(AccountsError, Refused):
    code = "user-missing"

    def __init__(self, user: str) -> None:
        super().__init__(
            f"There is no user {user[:80]!r}", hint="List them with `crucible budget list`"
        )


_RAISE = "raise it with `crucible budget set`"


def shown_amount(measure: str, amount: int) -> str:
    """As people read it."""
    if measure == "usd":
        return f"{amount / 1_000_000:.6f}".rstrip("0").rstrip(".") + " USD"
    return f"{amount:,} {measure.replace('_', ' ')}"


def _time(moment: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
