"""Budgets, plans, prices, the users they are for, and how those sign in."""

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
            f"There is no user {user[:80]!r}", hint="List them with `crucible user list`"
        )


class UserTaken(AccountsError, Refused):
    code = "user-taken"

    def __init__(self) -> None:
        super().__init__("There is a user of that name already", hint="Choose another name")


class BadUserName(AccountsError, Refused):
    code = "bad-user-name"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:80]!r} is no name for a user",
            hint="Use 1 to 64 letters, digits and . _ @ + -, beginning with a letter or a digit",
        )


class BadPassword(AccountsError, Refused):
    """One that nobody may have. What it was is never told."""

    code = "bad-password"

    def __init__(self, shortest: int, longest: int) -> None:
        super().__init__(
            f"A password has at least {shortest} characters, and at most {longest}",
            hint="A few words that nobody would put together are easy to keep in mind",
        )


class LastAdministrator(AccountsError, Refused):
    code = "last-administrator"

    def __init__(self) -> None:
        super().__init__(
            "Nobody would be left who may administer",
            hint="Make another user administrator first: `crucible user change NAME --role admin`",
        )


class SignInRefused(AccountsError, Refused):
    """The same words for a wrong name, a wrong password and a user who is disabled."""

    code = "sign-in-refused"

    def __init__(self) -> None:
        super().__init__(
            "The name or the password is wrong, or this user may not sign in",
            hint="An administrator can give a new password: `crucible user password NAME`",
        )


class SignInBusy(AccountsError, Refused):
    code = "sign-in-busy"

    def __init__(self) -> None:
        super().__init__("Too many passwords are being checked", hint="Try again in a few seconds")
        self.retry_after_s = 5


class SignUpClosed(AccountsError, Refused):
    code = "sign-up-closed"

    def __init__(self) -> None:
        super().__init__(
            "Nobody can sign up here by themselves",
            hint="An administrator can add a user: `crucible user add NAME`",
        )


class CodeRefused(AccountsError, Refused):
    """A one-time code that is wrong, used already or too old."""

    code = "code-refused"

    def __init__(self) -> None:
        super().__init__(
            "The code is unknown, used already or too old",
            hint="Get another link with `crucible link`, on the machine of the server",
        )


class IdentityRefused(AccountsError, Refused):
    """Who signs in elsewhere came back with something that does not hold."""

    code = "identity-refused"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Signing in elsewhere did not work: {why}", hint="Begin again from the sign-in page"
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
