"""A limit is never overshot: what is reserved counts, and what nobody knows counts in full."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from crucible.accounts.amounts import Amount, Measure, parse_amount
from crucible.accounts.budgets import Budgets, Reservation
from crucible.accounts.owners import is_gone, own_mark
from crucible.accounts.periods import Period, resets_at
from crucible.accounts.plans import Limit, plan_limits, plans
from crucible.accounts.users import Users
from crucible.errors import BadSetting, BudgetSpent, PlanMissing, PriceUnknown, UserMissing
from crucible.store.database import Database

pytestmark = pytest.mark.usefixtures("run")

SESSION = "session:one"
USER = "user:ada"


def most(amount: int, measure: Measure = Measure.TOKENS, period: Period = Period.TOTAL) -> Limit:
    return Limit(measure=measure, period=period, amount=amount)


def at(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp()


async def granted(budgets: Budgets, amount: Amount, *scopes: str) -> Reservation | None:
    try:
        return await budgets.reserve(scopes or (SESSION,), amount)
    except BudgetSpent:
        return None


async def test_what_is_reserved_counts_until_it_is_settled_for_less(budgets: Budgets) -> None:
    await budgets.set_limit(SESSION, most(100))
    first = await budgets.reserve([SESSION], Amount(tokens=80))
    assert await granted(budgets, Amount(tokens=21)) is None
    assert not await first.settle(Amount(tokens=30))
    assert await granted(budgets, Amount(tokens=71)) is None
    second = await budgets.reserve([SESSION], Amount(tokens=70))
    await second.release()
    [standing] = await budgets.remaining([SESSION])
    assert (standing.spent, standing.reserved, standing.remaining) == (30, 0, 70)


async def test_a_refusal_has_every_figure_and_says_when_it_ends(database: Database) -> None:
    budgets = Budgets(database, lambda: at("2026-02-27 23:00"))
    await budgets.set_limit(USER, most(1_000_000, Measure.USD, Period.MONTH))
    await (await budgets.reserve([USER], Amount(usd=400_000))).settle()
    await budgets.reserve([USER], Amount(usd=500_000))
    with pytest.raises(BudgetSpent) as caught:
        await budgets.reserve([USER], Amount(usd=100_001))
    error = caught.value
    assert (error.scope, error.measure, error.period) == (USER, "usd", "month")
    assert (error.limit, error.spent, error.reserved, error.wanted) == (
        1_000_000, 400_000, 500_000, 100_001,
    )  # fmt: skip
    assert error.resets_at == at("2026-03-01 00:00")
    assert "0.4 USD of 1 USD are spent and 0.5 USD reserved" in error.message
    assert "2026-03-01 00:00 UTC" in error.hint


async def test_more_than_was_reserved_is_recorded_as_it_is_and_told(budgets: Budgets) -> None:
    await budgets.set_limit(SESSION, most(100))
    held = await budgets.reserve([SESSION], Amount(tokens=10))
    assert await held.settle(Amount(tokens=150))
    sums = await budgets.spent(SESSION)
    assert (sums.spent.tokens, sums.reserved.tokens, sums.overshoots) == (150, 0, 1)
    assert await granted(budgets, Amount(tokens=1)) is None


async def test_settling_twice_changes_nothing(budgets: Budgets) -> None:
    held = await budgets.reserve([SESSION], Amount(tokens=10))
    await held.settle(Amount(tokens=4))
    await held.settle(Amount(tokens=9))
    assert not await budgets.settle(held.id, Amount(tokens=9))
    assert (await budgets.spent(SESSION)).spent.tokens == 4


async def test_one_scope_that_has_no_room_leaves_the_others_as_they_were(budgets: Budgets) -> None:
    await budgets.set_limit(SESSION, most(1000))
    await budgets.set_limit(USER, most(10, Measure.CALLS))
    assert await granted(budgets, Amount(tokens=5, calls=11), SESSION, USER) is None
    assert (await budgets.spent(SESSION)).reserved.tokens == 0
    assert await granted(budgets, Amount(tokens=5, calls=10), SESSION, USER) is not None


async def test_days_and_months_begin_anew_and_sessions_do_not(database: Database) -> None:
    now = [at("2026-01-31 23:59")]
    budgets = Budgets(database, lambda: now[0])
    await budgets.set_limit(USER, most(10, period=Period.DAY))
    await budgets.set_limit(USER, most(15, period=Period.MONTH))
    await budgets.set_limit(SESSION, most(25))
    late = await budgets.reserve([USER, SESSION], Amount(tokens=10))
    now[0] = at("2026-02-01 00:01")
    # What was reserved yesterday is spent yesterday.
    await late.settle(Amount(tokens=8))
    assert await granted(budgets, Amount(tokens=10), USER, SESSION) is not None
    assert await granted(budgets, Amount(tokens=1), USER) is None
    now[0] = at("2026-02-02 00:00")
    assert await granted(budgets, Amount(tokens=6), USER) is None
    assert await granted(budgets, Amount(tokens=5), USER, SESSION) is not None
    assert await granted(budgets, Amount(tokens=3), SESSION) is None


@pytest.mark.parametrize(
    "period,day,then",
    [
        (Period.DAY, "2026-12-31", "2027-01-01 00:00"),
        (Period.MONTH, "2026-12-31", "2027-01-01 00:00"),
        (Period.MONTH, "2024-02-01", "2024-03-01 00:00"),
    ],
)
def test_periods_end_when_the_calendar_says(period: Period, day: str, then: str) -> None:
    assert resets_at(period, day) == at(then)


async def test_a_user_has_the_limits_of_the_plan_and_each_session_its_part(
    database: Database, budgets: Budgets
) -> None:
    await Users(database).add("ada", plan="free")
    known = {(limit.measure, limit.period): limit.amount for limit in plan_limits("free")}
    of_user = {(s.measure, s.period): s.limit for s in await budgets.remaining([USER])}
    assert of_user == {key: value for key, value in known.items() if key[1] != "session"}
    of_session = {
        s.measure: s.limit for s in await budgets.remaining([USER, SESSION]) if s.scope == SESSION
    }
    assert of_session == {key[0]: value for key, value in known.items() if key[1] == "session"}
    wanted = known[Measure.TOKENS, Period.SESSION] + 1
    assert await granted(budgets, Amount(tokens=wanted), USER, SESSION) is None
    assert await granted(budgets, Amount(tokens=wanted), USER, "session:x") is None
    assert await granted(budgets, Amount(tokens=wanted), USER) is not None


async def test_limits_of_ones_own_go_before_the_plans_and_an_installation_may_change_a_plan(
    database: Database, budgets: Budgets
) -> None:
    users = Users(database)
    await users.add("ada", plan="free")
    await budgets.set_limit("plan:free", most(7, period=Period.DAY))
    assert await granted(budgets, Amount(tokens=8), USER) is None
    await budgets.set_limit(USER, most(9, period=Period.DAY))
    assert await granted(budgets, Amount(tokens=8), USER) is not None
    await budgets.clear_limit(USER)
    await users.give_plan("ada", "")
    assert await budgets.remaining([USER]) == []


async def test_what_makes_no_sense_is_refused(database: Database, budgets: Budgets) -> None:
    users = Users(database)
    await users.add("ada")
    for work in (
        budgets.set_limit(SESSION, most(1, period=Period.DAY)),
        budgets.set_limit("plan:free", most(1, period=Period.TOTAL)),
        budgets.set_limit("nobody", most(1)),
        budgets.set_limit("user:" + "x" * 200, most(1)),
        budgets.reserve(["user:a\nb"], Amount()),
        users.add("ada"),
        users.add("a b"),
    ):
        with pytest.raises(BadSetting):
            await work
    with pytest.raises(PlanMissing):
        await users.give_plan("ada", "fre")
    with pytest.raises(UserMissing):
        await users.give_plan("eve", "free")
    with pytest.raises(ValueError, match="no amount"):
        Amount(tokens=-1)


@pytest.mark.parametrize("text", ["", "-1", "1e99", "nan", "inf", "1.5", "ten", "0x10"])
def test_only_amounts_are_amounts(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_amount(Measure.TOKENS, text)


def test_money_is_counted_in_millionths_and_limits_are_rounded_down() -> None:
    assert parse_amount(Measure.USD, "2.50") == 2_500_000
    assert parse_amount(Measure.USD, "0.0000019") == 1
    assert parse_amount(Measure.TOKENS, "1_000") == 1000


def test_every_plan_that_is_shipped_can_be_read() -> None:
    assert set(plans()) == {"free", "dev", "pro"}


async def test_a_price_that_nobody_knows_is_refused_under_a_limit_of_usd_alone(
    budgets: Budgets,
) -> None:
    unknown = Amount(tokens=5, usd=None, model="acme:x")
    await (await budgets.reserve([SESSION], unknown)).settle(Amount(tokens=5, usd=None))
    await budgets.set_limit(SESSION, most(10**9, Measure.USD))
    with pytest.raises(PriceUnknown, match="acme:x"):
        await budgets.reserve([SESSION], unknown)


async def test_calls_at_once_never_come_to_more_than_the_limit(budgets: Budgets) -> None:
    await budgets.set_limit(SESSION, most(50))
    found = await asyncio.gather(*(granted(budgets, Amount(tokens=7)) for _ in range(20)))
    assert sum(one is not None for one in found) == 7
    sums = await budgets.spent(SESSION)
    assert sums.reserved.tokens == 49


async def test_who_is_cancelled_while_reserving_holds_nothing(budgets: Budgets) -> None:
    await budgets.set_limit(SESSION, most(1000))
    for _ in range(10):
        task = asyncio.create_task(budgets.reserve([SESSION], Amount(tokens=10)))
        await asyncio.sleep(0)
        task.cancel()
        results = await asyncio.gather(task, return_exceptions=True)
        if isinstance(results[0], Reservation):
            await results[0].release()
    assert (await budgets.spent(SESSION)).reserved.tokens == 0


def test_threads_with_databases_of_their_own_never_come_to_more_than_the_limit(
    database_url: str,
) -> None:
    spent: list[int] = []

    async def spend(number: int) -> None:
        database = Database(database_url)
        budgets = Budgets(database)
        try:
            for turn in range(6):
                # Each shares a scope with each other, named in another order.
                scopes = (SESSION, USER) if (number + turn) % 2 else (USER, SESSION)
                if (held := await granted(budgets, Amount(tokens=10), *scopes)) is not None:
                    await held.settle(Amount(tokens=10 - number))
                    spent.append(10 - number)
        finally:
            database.close()

    async def prepare() -> None:
        database = Database(database_url)
        await Budgets(database).set_limit(SESSION, most(100))
        database.close()

    asyncio.run(prepare())
    threads = [threading.Thread(target=lambda n=n: asyncio.run(spend(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database = Database(database_url)
    sums = asyncio.run(Budgets(database).spent(SESSION))
    database.close()
    assert sums.spent.tokens == sum(spent) <= 100
    assert sums.reserved.tokens == 0
    # What was refused did not fit.
    assert sum(spent) > 90


_SPENDER = """
import asyncio, os, sys
from crucible.accounts.amounts import Amount
from crucible.accounts.budgets import Budgets
from crucible.errors import BudgetSpent
from crucible.store.database import Database

async def main():
    budgets = Budgets(Database(sys.argv[1]))
    if sys.argv[2] == "dies":
        held = await budgets.reserve(["session:one"], Amount(tokens=60))
        print(held.id, flush=True)
        os._exit(9)
    sys.stdin.readline()
    count = 0
    while True:
        try:
            await budgets.reserve(["session:one"], Amount(tokens=3))
        except BudgetSpent:
            break
        count += 1
    print(count)
    os._exit(0)

asyncio.run(main())
"""


async def test_processes_at_once_never_come_to_more_than_the_limit(
    budgets: Budgets, database_url: str
) -> None:
    await budgets.set_limit(SESSION, most(50))
    command = [sys.executable, "-c", _SPENDER, database_url, "spends"]
    started = [
        await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    told = await asyncio.gather(*(process.communicate(b"go\n") for process in started))
    assert sum(int(output) for output, _ in told) == 16


async def test_a_call_whose_process_died_counts_in_full_until_somebody_knows_better(
    budgets: Budgets, database_url: str
) -> None:
    await budgets.set_limit(SESSION, most(100))
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SPENDER, database_url, "dies", stdout=subprocess.PIPE
    )
    told, _ = await ended.communicate()
    assert ended.returncode == 9
    assert await granted(budgets, Amount(tokens=41)) is None
    mine = await budgets.reserve([SESSION], Amount(tokens=10))
    assert await budgets.settle_lost() == 1
    assert await budgets.settle_lost() == 0
    sums = await budgets.spent(SESSION)
    assert (sums.spent.tokens, sums.reserved.tokens) == (60, 10)
    assert await granted(budgets, Amount(tokens=31)) is None
    assert not await budgets.settle(told.decode().strip(), Amount(tokens=20))
    assert (await budgets.spent(SESSION)).spent.tokens == 20
    await mine.release()


async def test_a_reservation_past_its_lease_counts_as_spent_and_can_still_be_settled(
    database: Database,
) -> None:
    now = [at("2026-05-05 12:00")]
    budgets = Budgets(database, lambda: now[0])
    held = await budgets.reserve([SESSION], Amount(tokens=9), lease_s=60)
    assert await budgets.settle_lost() == 0
    now[0] += 61
    assert await budgets.settle_lost() == 1
    assert (await budgets.spent(SESSION)).spent.tokens == 9
    await held.settle(Amount(tokens=2))
    assert (await budgets.spent(SESSION)).spent.tokens == 2


def test_a_process_is_known_by_when_it_began() -> None:
    mark = own_mark()
    assert not is_gone(mark)
    host, pid, began = mark.split(" ")
    assert is_gone(f"{host} {pid} {int(began) + 1}")
    assert not is_gone(f"elsewhere/0 {pid} {int(began) + 1}")
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert is_gone(f"{host} {ended.pid} {began}")
    assert int(pid) == os.getpid()
