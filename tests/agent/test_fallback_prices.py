"""Who answers in the place of another is paid at its own price, and is set aside for before anybody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.agent.scenes import Played, Say, Scene, run
from tests.agent.test_accounts import kept

from crucible.accounts.budgets import Budgets
from crucible.accounts.prices import Prices
from crucible.accounts.scopes import session_scope
from crucible.agent.models.base import Model, ModelRef, Profile, Purpose, Usage
from crucible.agent.models.fallback import ModelWithFallback
from crucible.agent.options import Limits
from crucible.agent.paying import BudgetPurse
from crucible.agent.weighing import weigh, worst_case
from crucible.errors import BadAnswer, ModelOverloaded
from crucible.ledger.ledger import Ledger
from crucible.store.database import Database

CHEAP, DEAR = ModelRef(provider="cheap", name="a"), ModelRef(provider="dear", name="b")
PRICES = Prices.of_setting("cheap:*=1/2,dear:*=10/20")
USAGE = Usage(input_tokens=1_000, output_tokens=100)
# What USAGE costs of each.
COSTS = {CHEAP: 0.0012, DEAR: 0.012}
LIMITED = Profile(context_tokens=100_000, output_tokens=1_000)


class Chain:
    """The models of an engine: one, and who is asked in its place."""

    def __init__(self, first: Played, *others: Played) -> None:
        self._model = ModelWithFallback(first, others)

    def model(self, ref: ModelRef) -> Model:
        return self._model

    def parse(self, text: str) -> ModelRef:
        return self._model.ref

    def default(self, purpose: Purpose) -> ModelRef:
        return self._model.ref


def busy() -> Say:
    return Say(error=ModelOverloaded("It is busy"))


def said(text: str = "Hello.") -> Say:
    return Say(text=text, usage=USAGE)


@asynccontextmanager
async def chained(
    root: Path, first: Played, *others: Played
) -> AsyncIterator[tuple[Scene, Ledger, Budgets]]:
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    try:
        budgets = Budgets(database)
        purse = BudgetPurse(budgets, PRICES)
        async with kept(root, models=Chain(first, *others), purse=purse) as (stage, ledger):
            yield stage, ledger, budgets
    finally:
        database.close()


@pytest.mark.parametrize("first, other", [(CHEAP, DEAR), (DEAR, CHEAP)], ids=str)
def test_a_call_costs_what_the_model_takes_that_answered(
    tmp_path: Path, first: ModelRef, other: ModelRef
) -> None:
    async def play() -> None:
        models = Played(busy(), said(), ref=first), Played(said(), ref=other)
        async with chained(tmp_path, *models) as (stage, ledger, budgets):
            session = await stage.session(budget=Limits(usd=1.0))
            scope = session_scope(session.id)
            reply = await stage.engine.generate(session.id, "hello", intent="chat")
            assert (reply.end, reply.cost_usd) == ("done", COSTS[other])
            assert (await budgets.spent(scope)).spent.usd == COSTS[other] * 1e6
            reply = await stage.engine.generate(session.id, "again", intent="chat")
            assert reply.cost_usd == COSTS[first], "the next call is the first one's again"
            sums = await budgets.spent(scope)
            assert sums.spent.usd == round(sum(COSTS.values()) * 1e6)
            assert sums.reserved.usd == 0
            calls = [
                entry
                for entry in await ledger.entries(session.id)
                if entry.facts["step"] == "model"
            ]
            assert [entry.model for entry in calls] == [str(other), str(first)]
            assert [entry.cost_micros for entry in calls] == [
                round(COSTS[one] * 1e6) for one in (other, first)
            ]

    run(play())


async def most_usd(model: Played, asked: int, other: ModelRef) -> float:
    """What is set aside for that call if this one answers it."""
    request = model.asked[asked]
    worst = PRICES.worst_case(
        other.provider,
        other.name,
        input_tokens=worst_case(weigh(request)),
        output_tokens=request.max_output_tokens,
    )
    assert worst is not None
    return worst / 1e6


@pytest.mark.parametrize("first, other", [(CHEAP, DEAR), (DEAR, CHEAP)], ids=str)
def test_what_the_dearest_could_overrun_is_refused_before_anybody_is_asked(
    tmp_path: Path, first: ModelRef, other: ModelRef
) -> None:
    async def play() -> None:
        models = [
            Played(said(), said(), ref=first, profile=LIMITED),
            Played(ref=other, profile=LIMITED),
        ]
        async with chained(tmp_path, *models) as (stage, _, budgets):
            probe = await stage.session()
            await stage.engine.generate(probe.id, "hello", intent="chat")
            needed = await most_usd(models[0], 0, DEAR)
            refused = await stage.session(budget=Limits(usd=needed - 0.000001))
            reply = await stage.engine.generate(refused.id, "hello", intent="chat")
            assert (reply.end, reply.error["code"]) == ("budget-spent", "budget-spent")
            assert [len(model.asked) for model in models] == [1, 0]
            sums = await budgets.spent(session_scope(refused.id))
            assert (sums.spent.usd, sums.reserved.usd) == (0, 0)
            allowed = await stage.session(budget=Limits(usd=needed))
            reply = await stage.engine.generate(allowed.id, "hello", intent="chat")
            assert reply.end == "done"

    run(play())


def test_one_that_would_not_be_asked_is_not_set_aside_for(tmp_path: Path) -> None:
    async def play() -> None:
        silent = Profile(context_tokens=100_000, output_tokens=1_000, calls_tools=False)
        first = Played(said(), said(), ref=CHEAP, profile=LIMITED)
        async with chained(tmp_path, first, Played(ref=DEAR, profile=silent)) as (stage, _, _b):
            probe = await stage.session()
            await stage.engine.generate(probe.id, "run it", intent="agent")
            needed = await most_usd(first, 0, CHEAP)
            session = await stage.session(budget=Limits(usd=needed))
            reply = await stage.engine.generate(session.id, "run it", intent="agent")
            assert reply.end == "done"
            assert first.asked[0].tools

    run(play())


def test_a_fallback_without_a_price_is_refused_under_a_budget_in_usd(tmp_path: Path) -> None:
    async def play() -> None:
        nobody = ModelRef(provider="nobody", name="knows")
        first = Played(said(), ref=CHEAP)
        async with chained(tmp_path, first, Played(ref=nobody)) as (stage, _, _b):
            session = await stage.session(budget=Limits(usd=1.0))
            reply = await stage.engine.generate(session.id, "hello", intent="chat")
            assert reply.error["code"] == "price-unknown"
            assert "nobody:knows" in str(reply.error["message"])
            assert first.asked == []

    run(play())


def test_a_call_that_is_left_counts_at_the_worst_of_who_was_asked(tmp_path: Path) -> None:
    async def play() -> None:
        held = asyncio.Event()
        first = Played(busy(), ref=DEAR, profile=LIMITED)
        other = Played(Say(text="many words of", amid=held), ref=CHEAP, profile=LIMITED)
        async with chained(tmp_path, first, other) as (stage, _, budgets):
            session = await stage.session(budget=Limits(usd=10.0))
            await stage.engine.begin(session.id, "hello", intent="chat")
            async for event in stage.engine.events(session.id):
                if event.kind == "text":
                    break
            await stage.engine.cancel(session.id)
            sums = await budgets.spent(session_scope(session.id))
            assert sums.spent.usd == round(await most_usd(other, 0, CHEAP) * 1e6)
            assert (sums.reserved.usd, sums.spent.iterations) == (0, 1)

    run(play())


def test_each_try_that_may_be_charged_for_is_paid_for(tmp_path: Path) -> None:
    """The provider of the first has read the question, whether its answer came whole or not."""

    async def play() -> None:
        broken = Say(error=BadAnswer("The answer broke off"))
        first = Played(broken, broken, ref=DEAR, profile=LIMITED)
        other = Played(said(), said(), ref=CHEAP, profile=LIMITED)
        async with chained(tmp_path, first, other) as (stage, ledger, budgets):
            session = await stage.session(budget=Limits(usd=10.0, iterations=1))
            reply = await stage.engine.generate(session.id, "hello", intent="chat")
            assert reply.end == "done"
            most = await most_usd(first, 0, DEAR)
            sums = await budgets.spent(session_scope(session.id))
            assert sums.spent.usd == round((most + COSTS[CHEAP]) * 1e6)
            assert (sums.reserved.usd, sums.spent.iterations) == (0, 1)
            # Enough for one try, and not for another.
            short = await stage.session(budget=Limits(usd=most * 1.5))
            reply = await stage.engine.generate(short.id, "hello", intent="chat")
            assert (reply.end, len(other.asked)) == ("budget-spent", 1)
            sums = await budgets.spent(session_scope(short.id))
            assert (sums.spent.usd, sums.reserved.usd) == (round(most * 1e6), 0)
            failed = [one for one in await ledger.entries(short.id) if one.kind == "model-call"]
            assert [(one.facts["code"], one.cost_micros) for one in failed] == [
                ("budget-spent", None)
            ]

    run(play())


def test_what_one_model_counted_bounds_no_other(tmp_path: Path) -> None:
    """A tokenizer that finds few tokens in a text says nothing of one that finds many."""

    async def play(limit: int) -> Sequence[int]:
        few = Usage(input_tokens=10, output_tokens=5)
        first = Played(Say(text="One.", usage=few), busy(), ref=CHEAP, profile=LIMITED)
        other = Played(said("Two."), ref=DEAR, profile=LIMITED)
        root = tmp_path / str(limit)
        root.mkdir()
        async with chained(root, first, other) as (stage, _, _b):
            session = await stage.session()
            await stage.engine.generate(session.id, "word " * 2_000, intent="chat")
            await stage.engine.configure(session.id, {"budget": Limits(tokens=limit)})
            await stage.engine.generate(session.id, "and now?", intent="chat")
            return [len(first.asked), len(other.asked)]

    # Little more than what the first would count, and less than the bytes of what the other would read.
    assert run(play(8_000)) == [1, 0]
    assert run(play(30_000)) == [2, 1]
