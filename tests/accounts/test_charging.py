"""Sandboxes and sessions as they are charged: limits of their own, kept when the program that counts is another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crucible.accounts.amounts import Measure
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.agent.options import Limits, SessionOptions
from crucible.agent.places.wishes import charges_of
from crucible.errors import BadSetting
from crucible.network import metering
from crucible.network.metering import ModelCall, Refusal
from crucible.sandbox.metering import Accounts
from crucible.sandbox.spec import SandboxSpec, parse_spec
from crucible.store.lazy import own_database

pytestmark = pytest.mark.usefixtures("run")

CALL = ModelCall(provider="openai", model="gpt-4o", input_tokens=100, output_tokens=100)
SPENT = metering.Usage(input_tokens=40, output_tokens=10)


def opened(home: Path, template: Path) -> Accounts:
    if not (home / "crucible.db").exists():
        shutil.copy(template, home / "crucible.db")
    return Accounts.of(own_database(home), {"HOME": str(home)})


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
    accounts = Accounts.of(own_database(tmp_path), {"HOME": str(tmp_path)})
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


def test_the_sandbox_of_a_session_with_a_budget_is_charged_to_it() -> None:
    options = SessionOptions(user="ada", budget=Limits(usd=1.0))
    assert charges_of("s1", options) == ("session:s1", "user:ada")
    # Without a budget of its own, too: its user may have a plan.
    assert charges_of("s1", SessionOptions(user="ada")) == ("session:s1", "user:ada")
