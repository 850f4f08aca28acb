"""`budget`: what sessions, users, plans and sandboxes may spend, and what they have spent."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.accounts.budgets import Standing
    from crucible.accounts.plans import Limit
    from crucible.accounts.spending import Sums

_HEADINGS = ("OF", "MEASURE", "EACH", "LIMIT", "SPENT", "RESERVED", "LEFT", "BEGINS ANEW")
_SUMS = ("OF", "PLAN", "TOKENS", "USD", "CALLS", "ITERATIONS", "SANDBOX SECONDS")


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.accounts import OpenAccounts, opened

    async def work(accounts: OpenAccounts) -> list[tuple[str, str, Sums]]:
        await accounts.budgets.settle_lost()
        plans = {f"user:{user.id}": user.plan for user in await accounts.users.all()}
        scopes = sorted({*plans, *await accounts.budgets.charged()})
        return [
            (scope, plans.get(scope, ""), await accounts.budgets.spent(scope)) for scope in scopes
        ]

    with opened() as accounts:
        found = accounts.run(work(accounts))
    if arguments.flag("json"):
        render.show_json([_sums_as_json(*one) for one in found])
    elif found:
        render.show_table(_SUMS, [_sums_row(*one) for one in found])
    else:
        render.tell("Nothing was ever spent; set a limit with `crucible budget set SCOPE LIMIT`")
    return 0


def show(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.accounts import OpenAccounts, opened

    async def work(accounts: OpenAccounts) -> list[Standing]:
        await accounts.budgets.settle_lost()
        return await accounts.budgets.remaining([scope])

    scope = _scope(arguments)
    with opened() as accounts:
        found = accounts.run(work(accounts))
    if arguments.flag("json"):
        render.show_json([_standing_as_json(one) for one in found])
    elif found:
        render.show_table(_HEADINGS, [_standing_row(one) for one in found])
    else:
        render.tell(f"Nothing limits {scope}; set one with `crucible budget set {scope} LIMIT`")
    return 0


def set_limits(arguments: Arguments) -> int:
    from crucible.cli.accounts import OpenAccounts, opened

    async def work(accounts: OpenAccounts) -> None:
        for limit in limits:
            await accounts.budgets.set_limit(scope, limit)

    scope = _scope(arguments)
    limits = [_limit(text, scope) for text in arguments.words("LIMIT")]
    with opened() as accounts:
        accounts.run(work(accounts))
    return 0


def clear(arguments: Arguments) -> int:
    from crucible.accounts.amounts import Measure
    from crucible.cli.accounts import opened

    text = arguments.optional_word("MEASURE")
    measure = None if text is None else Measure(_measure(text))
    scope = _scope(arguments)
    with opened() as accounts:
        accounts.run(accounts.budgets.clear_limit(scope, measure))
    return 0


def plan(arguments: Arguments) -> int:
    """The user is made if there is none."""
    from crucible.cli.accounts import OpenAccounts, opened
    from crucible.errors import UserMissing

    async def work(accounts: OpenAccounts) -> None:
        try:
            await accounts.users.give_plan(user, name)
        except UserMissing:
            await accounts.users.add(user, plan=name)

    user, name = arguments.word("USER"), arguments.word("PLAN")
    name = "" if name == "none" else name
    with opened() as accounts:
        accounts.run(work(accounts))
    return 0


def _scope(arguments: Arguments) -> str:
    """A sandbox may be called by its name."""
    from crucible.accounts.scopes import check_scope, kind_of, name_of, sandbox_scope
    from crucible.config import load_config
    from crucible.errors import SandboxMissing
    from crucible.sandbox.records import open_records

    scope = check_scope(arguments.word("SCOPE"))
    if kind_of(scope) != "sandbox":
        return scope
    try:
        return sandbox_scope(open_records(load_config().home).find(name_of(scope)).id)
    except SandboxMissing:
        return scope


def _limit(text: str, scope: str) -> Limit:
    from crucible.accounts.amounts import Measure, parse_amount
    from crucible.accounts.periods import Period
    from crucible.accounts.plans import Limit
    from crucible.errors import BadSetting, suggestion

    name, equals, rest = text.partition("=")
    amount, _, period = rest.partition("/")
    if not equals:
        raise BadSetting(f"{text[:80]!r} is no limit", hint=_FORM)
    if period and period not in list(Period):
        raise BadSetting(f"{period[:80]!r} is no period", hint=suggestion(period, list(Period)))
    measure = Measure(_measure(name))
    return Limit(
        measure=measure,
        period=Period(period or Period.TOTAL),
        amount=parse_amount(measure, amount),
    )


def _measure(name: str) -> str:
    from crucible.accounts.amounts import Measure
    from crucible.errors import BadSetting, suggestion

    if name not in list(Measure):
        raise BadSetting(f"{name[:80]!r} is nothing to spend", hint=suggestion(name, list(Measure)))
    return name


def _sums_as_json(scope: str, plan: str, sums: Sums) -> dict[str, Any]:
    return {
        "scope": scope,
        "plan": plan,
        "spent": sums.spent.as_row(),
        "reserved": sums.reserved.as_row(),
        "overshoots": sums.overshoots,
    }


def _sums_row(scope: str, plan: str, sums: Sums) -> tuple[str, ...]:
    from crucible.accounts.amounts import Measure

    amounts = [
        sums.spent.of(measure) + sums.reserved.of(measure)
        for measure in (
            Measure.TOKENS, Measure.USD, Measure.CALLS, Measure.ITERATIONS, Measure.SANDBOX_SECONDS,
        )
    ]  # fmt: skip
    amounts_shown = [str(amount) for amount in amounts]
    amounts_shown[1] = f"{amounts[1] / 1_000_000:.6f}"
    return (scope, plan or "-", *amounts_shown)


def _standing_as_json(standing: Standing) -> dict[str, Any]:
    names = ("scope", "measure", "period", "limit", "spent", "reserved", "remaining", "resets_at")
    return {name: getattr(standing, name) for name in names}


def _standing_row(standing: Standing) -> tuple[str, ...]:
    from crucible.cli import render
    from crucible.errors.accounts import shown_amount

    amounts = (standing.limit, standing.spent, standing.reserved, standing.remaining)
    anew = render.moment(standing.resets_at) if standing.resets_at else "never"
    shown = (shown_amount(standing.measure, amount).split(" ")[0] for amount in amounts)
    return (standing.scope, standing.measure, standing.period, *shown, anew)


_FORM = "Write it like tokens=100000, usd=2.50/month or calls=500/day"
_SCOPE = Operand("SCOPE", "session:ID, user:ID, plan:NAME or sandbox:NAME")

COMMANDS = (
    Command(
        "budget",
        notes="""\
A limit is of tokens, usd, sandbox_seconds, iterations or calls. That of a session or a sandbox
is for all its time; a user's may be for each day or month, and a plan's for each session too.
What is reserved for calls under way counts as if it were spent.""",
        examples=(("crucible budget set user:ada usd=20/month", "no more than that each month"),),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(JSON,),
                summary="List everything that was ever charged, and what it came to",
                examples=(("crucible budget list", "sessions, users and sandboxes"),),
            ),
            Command(
                "show",
                show,
                operands=(_SCOPE,),
                options=(JSON,),
                summary="Show the limits that hold, and what is left",
                examples=(("crucible budget show user:ada", "with the limits of the plan"),),
            ),
            Command(
                "set",
                set_limits,
                operands=(
                    _SCOPE,
                    Operand("LIMIT", "tokens=100000, usd=2.50/month, calls=500/day", arity="many"),
                ),
                summary="Set limits, in the place of those that were",
                examples=(
                    ("crucible budget set sandbox:box usd=2.50", "for the programs in a sandbox"),
                ),
            ),
            Command(
                "clear",
                clear,
                operands=(
                    _SCOPE,
                    Operand("MEASURE", "which; all without it", arity="optional"),
                ),
                summary="Take limits away",
                examples=(("crucible budget clear user:ada usd", "the plan's hold again"),),
            ),
            Command(
                "plan",
                plan,
                operands=(
                    Operand("USER", "the user"),
                    Operand("PLAN", "free, dev, pro or none"),
                ),
                summary="Give a user a plan",
                examples=(("crucible budget plan ada dev", "its limits hold from now on"),),
            ),
        ),
    ),
)
