"""The real ledger and the real budgets under an engine: every step is an entry, and no limit is overshot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.agent.scenes import Line, OneModel, Played, Say, Scene, call, run, scene
from tests.agent.test_trust import Asks, answer

from crucible.accounts.budgets import Budgets
from crucible.accounts.prices import Prices
from crucible.accounts.scopes import session_scope
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import ToolMessage
from crucible.agent.models.base import ModelRef, Usage
from crucible.agent.options import Limits
from crucible.agent.paying import BudgetPurse
from crucible.agent.recording import LedgerRecorder
from crucible.cli.run_lines import entry_row
from crucible.errors import ModelRefused, ModelTimedOut
from crucible.ledger.ledger import Ledger
from crucible.ledger.live import verify_run
from crucible.store.database import Database

RUN = Say(
    calls=(call("bash", command="echo one"),), usage=Usage(input_tokens=100, output_tokens=10)
)


@asynccontextmanager
async def kept(root: Path, *lines: Line, **parts: Any) -> AsyncIterator[tuple[Scene, Ledger]]:
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    ledger = Ledger(root, database)
    try:
        async with scene(
            root,
            *lines,
            **{
                "store": SqlSessions(database),
                "recorder": LedgerRecorder(ledger),
                "runs": ledger,
                "purse": BudgetPurse(Budgets(database), Prices.of_setting("paid:*=10/20")),
                **parts,
            },
        ) as stage:
            yield stage, ledger
    finally:
        ledger.close()
        database.close()


def test_every_step_is_an_entry_of_a_chain_that_holds(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, RUN, Say(text="Done."), judge=Asks()) as (stage, ledger):
            session = await stage.session(user="ana")
            turn = await stage.engine.begin(session.id, "run it")
            await answer(stage, session.id, "once")
            await turn.wait()
            entries = await ledger.entries(session.id)
            steps = [entry.facts["step"] for entry in entries]
            assert steps == [
                "session", "prompt", "model", "policy", "approval", "tool", "model", "turn"
            ]  # fmt: skip
            tool = entries[5]
            assert (tool.exit_status, tool.isolation) == (0, "namespace")
            assert tool.output is not None
            assert b"one" in await ledger.blob(session.id, tool.output)
            model = entries[2]
            assert (model.tokens_in, model.tokens_out) == (100, 10)
            assert model.output is not None
            said = json.loads(await ledger.blob(session.id, model.output))
            assert said["message"]["parts"][0]["name"] == "bash"
            assert not any("echo one" in json.dumps(entry.facts) for entry in entries)
            verdict = await asyncio.to_thread(
                verify_run,
                session.id,
                database=ledger.database,
                heads=ledger.heads,
                contents=ledger.contents,
                key=ledger.key.public,
            )
            assert verdict.count == len(entries)
            assert verdict.findings == ()

    run(play())


def test_a_spent_budget_ends_the_turn_and_keeps_the_work(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, RUN, RUN, RUN, Say(text="Never.")) as (stage, ledger):
            session = await stage.session(budget=Limits(iterations=2))
            reply = await stage.engine.generate(session.id, "run it")
            assert reply.end == "budget-spent"
            assert reply.error["code"] == "budget-spent"
            assert "2 iterations" in str(reply.error["message"])
            (refused,) = [one for one in await ledger.entries(session.id) if one.kind == "budget"]
            assert (refused.facts["code"], refused.cost_micros) == ("budget-spent", 0)
            assert len(stage.model.asked) == 2
            history = await stage.engine.history(session.id)
            assert isinstance(history[-1], ToolMessage)
            await stage.engine.configure(session.id, {"budget": Limits(iterations=4)})
            turn = await stage.engine.resume(session.id)
            assert (await turn.wait()).end == "done"

    run(play())


def test_calls_side_by_side_do_not_overshoot(tmp_path: Path) -> None:
    many = tuple(call("bash", id=str(number), command="echo x") for number in range(6))

    async def play() -> None:
        async with kept(tmp_path, Say(calls=many), Say(text="Some.")) as (stage, ledger):
            session = await stage.session(budget=Limits(calls=4))
            reply = await stage.engine.generate(session.id, "run them")
            assert reply.end == "budget-spent"
            message = (await stage.engine.history(session.id))[-1]
            assert isinstance(message, ToolMessage)
            assert len(message.results) == 6
            budgets = Budgets(ledger.database)
            spent = await budgets.spent(session_scope(session.id))
            assert spent.spent.calls <= 4
            assert spent.reserved.calls == 0

    run(play())


def test_a_paid_model_costs_what_it_costs(tmp_path: Path) -> None:
    async def play() -> None:
        paid = Played(
            Say(text="Hi.", usage=Usage(input_tokens=1000, output_tokens=100)),
            ref=ModelRef(provider="paid", name="m"),
        )
        async with kept(tmp_path, models=OneModel(paid)) as (stage, _):
            session = await stage.session(budget=Limits(usd=1.0))
            reply = await stage.engine.generate(session.id, "hello")
            assert reply.is_cost_whole
            assert reply.cost_usd == (1000 * 10 + 100 * 20) / 1e6

    run(play())


def test_a_model_that_does_not_tell_what_it_used_costs_the_worst(tmp_path: Path) -> None:
    async def play() -> None:
        paid = Played(
            Say(text="Hi.", usage=Usage()),
            Say(error=ModelRefused("Not this")),
            Say(error=ModelTimedOut("Too slow")),
            ref=ModelRef(provider="paid", name="m"),
        )
        async with kept(tmp_path, models=OneModel(paid)) as (stage, ledger):
            session = await stage.session(budget=Limits(usd=100.0))
            budgets, scope = Budgets(ledger.database), session_scope(session.id)
            reply = await stage.engine.generate(session.id, "hello")
            assert (reply.end, reply.is_cost_whole) == ("done", False)
            told = (await budgets.spent(scope)).spent
            assert told.tokens > 1000, "all that it may have written"
            assert told.usd is not None
            assert told.usd > 1000
            assert (await stage.engine.generate(session.id, "again")).end == "failed"
            assert (await budgets.spent(scope)).spent.usd == told.usd, "it was refused unread"
            assert (await stage.engine.generate(session.id, "and again")).end == "failed"
            last = (await budgets.spent(scope)).spent.usd
            assert last is not None
            assert last > told.usd
            calls = [one for one in await ledger.entries(session.id) if one.kind == "model-call"]
            assert [(one.facts.get("code"), one.cost_micros, one.model) for one in calls] == [
                (None, None, "paid:m"),
                ("model-request-refused", 0, "paid:m"),
                ("model-timed-out", None, "paid:m"),
            ]
            assert entry_row(calls[-1])[-1] == "paid:m: model-timed-out"

    run(play())


def test_a_model_without_a_price_is_refused_under_a_budget_in_usd(tmp_path: Path) -> None:
    async def play() -> None:
        free = Played(Say(text="Hi."), ref=ModelRef(provider="nobody", name="knows"))
        async with kept(tmp_path, models=OneModel(free)) as (stage, _):
            session = await stage.session(budget=Limits(usd=1.0))
            reply = await stage.engine.generate(session.id, "hello")
            assert (reply.end, reply.error["code"]) == ("failed", "price-unknown")
            assert free.asked == []
            other = await stage.session()
            unpriced = await stage.engine.generate(other.id, "hello")
            assert (unpriced.end, unpriced.is_cost_whole) == ("done", False)

    run(play())
