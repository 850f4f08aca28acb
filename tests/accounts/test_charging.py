"""Sandboxes and sessions as they are charged: limits of their own, kept when the program that counts is another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crucible.accounts.amounts import Measure
from crucible.accounts.budgets import Budgets
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices
from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import Limits
from crucible.agent.purse import BudgetPurse
from crucible.agent.seams import Spend
from crucible.errors import BadSetting, BudgetSpent, PriceUnknown
from crucible.network import metering
from crucible.network.metering import ModelCall, Refusal
from crucible.sandbox.metering import Accounts
from crucible.sandbox.spec import SandboxSpec, parse_spec
from crucible.store.database import Database

pytestmark = pytest.mark.usefixtures("run")

CALL = ModelCall(provider="openai", model="gpt-4o", input_tokens=100, output_tokens=100)
SPENT = metering.Usage(input_tokens=40, output_tokens=10)


def opened(home: Path, template: Path) -> Accounts:
    if not (home / "crucible.db").exists():
        shutil.copy(template, home / "crucible.db")
    return Accounts.of(home, {"HOME": str(home)})


async def test_what_a_sandbox_spent_is_known_to_the_next_program_that_holds_it(
    sqlite_template: Path, tmp_path: Path
) -> None:
    spec = SandboxSpec(budget_tokens=330, budget_usd=1.0, charges=("session:s",))
    for _ in range(3):
        accounts = opened(tmp_path, sqlite_template)
        admitted = await accounts.meter("abc", spec).admit(CALL)
        assert not isinstance(admitted, Refusal)
        await admitted.settle(SPENT)
        accounts.database.close()
    accounts = opened(tmp_path, sqlite_template)
    refused = await accounts.meter("abc", spec).admit(CALL)
    assert isinstance(refused, Refusal)
    assert refused.kind == "budget"
    tokens, usd = await accounts.standings("abc")
    assert (tokens.spent, tokens.limit) == (150, 330)
    assert (usd.spent, usd.limit) == (3 * 200, 1_000_000)
    assert (await accounts.budgets.spent("session:s")).spent.tokens == 150
    accounts.database.close()


async def test_a_limit_that_was_set_by_hand_is_not_set_back(
    sqlite_template: Path, tmp_path: Path
) -> None:
    accounts = opened(tmp_path, sqlite_template)
    limit = Limit(measure=Measure.TOKENS, period=Period.TOTAL, amount=10)
    await accounts.budgets.set_limit("sandbox:abc", limit)
    spec = SandboxSpec(budget_tokens=1000)
    assert isinstance(await accounts.meter("abc", spec).admit(CALL), Refusal)
    accounts.database.close()


async def test_a_session_that_is_spent_refuses_the_programs_of_its_sandbox(
    sqlite_template: Path, tmp_path: Path
) -> None:
    accounts = opened(tmp_path, sqlite_template)
    limit = Limit(measure=Measure.TOKENS, period=Period.TOTAL, amount=199)
    await accounts.budgets.set_limit("session:s", limit)
    refused = await accounts.meter("abc", SandboxSpec(charges=("session:s",))).admit(CALL)
    assert isinstance(refused, Refusal)
    assert "session:s" in refused.reason
    accounts.database.close()


async def test_a_database_that_cannot_be_used_grants_nothing(tmp_path: Path) -> None:
    (tmp_path / "crucible.db").write_bytes(b"no database" * 1000)
    accounts = Accounts.of(tmp_path, {"HOME": str(tmp_path)})
    refused = await accounts.meter("abc", SandboxSpec(budget_tokens=10**9)).admit(CALL)
    assert isinstance(refused, Refusal)
    assert refused.kind == "broken"
    accounts.database.close()


@pytest.mark.parametrize(
    "values",
    [{"budget_tokens": -1}, {"budget_tokens": 1.5}, {"budget_usd": -0.1}, {"budget_usd": 1e-9},
     {"budget_usd": "1"}, {"budget_tokens": 10**16}, {"charges": ["nobody"]}, {"charges": "session:s"}],
)  # fmt: skip
def test_a_budget_that_makes_no_sense_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(BadSetting):
        parse_spec(values)


async def test_a_session_pays_by_its_purse_until_its_own_limit(database: Database) -> None:
    purse = BudgetPurse(Budgets(database), Prices.of_setting("acme:m=1000000/1000000"))
    model = ModelRef(provider="acme", name="m")
    spend = Spend(
        session="s", user="ada", limits=Limits(usd=0.5, iterations=3), model=model,
        input_tokens=10, output_tokens=10, iterations=1,
    )  # fmt: skip
    with pytest.raises(BudgetSpent):
        await purse.reserve(spend)
    roomy = Spend(
        session="s", user="ada", limits=Limits(usd=50, iterations=1), model=model,
        input_tokens=10, output_tokens=10, iterations=1,
    )  # fmt: skip
    hold = await purse.reserve(roomy)
    assert await hold.settle(usage=Usage(input_tokens=2, output_tokens=1), iterations=1) == 3.0
    assert await hold.settle(usage=Usage(input_tokens=9)) is not None
    with pytest.raises(BudgetSpent) as caught:
        await purse.reserve(roomy)
    assert (caught.value.scope, caught.value.measure) == ("session:s", "iterations")
    assert (await Budgets(database).spent("user:ada")).spent.usd == 3_000_000


async def test_a_purse_refuses_a_price_that_nobody_knows_under_usd_alone(
    database: Database,
) -> None:
    purse = BudgetPurse(Budgets(database), Prices())
    model = ModelRef(provider="acme", name="m")
    with pytest.raises(PriceUnknown):
        await purse.reserve(Spend(session="s", user="a", limits=Limits(usd=1), model=model))
    hold = await purse.reserve(Spend(session="s", user="a", limits=Limits(tokens=9), model=model))
    assert await hold.settle(usage=Usage(input_tokens=1)) is None
    tool = await purse.reserve(
        Spend(session="s", user="a", limits=Limits(), sandbox_s=1.2, calls=1)
    )
    assert await tool.settle(sandbox_s=0.3, calls=1) == 0.0
