"""Memory and budgets over HTTP and through the SDK: real doors on a real database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert
from tests.agent.scenes import Say
from tests.server.agent_stage import Stage

from crucible.accounts.amounts import Amount, Measure
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.server.tokens import Scope
from crucible.store.tables.memory import memory_summaries
from crucible_client.errors import MemoryMissing, MemoryOff, SecretRefused

pytestmark = pytest.mark.usefixtures("run")


async def test_facts_are_added_listed_edited_pinned_and_forgotten(stage: Stage) -> None:
    async with stage.client() as client:
        first = await client.memory.add("I live in Lisbon")
        assert first.action == "added"
        moved = await client.memory.add("I moved to Porto")
        assert moved.action == "replaced"
        assert [old.id for old in moved.replaces] == [first.fact.id]
        goal = await client.memory.add("I want to learn Rust", kind="goal", pinned=True)
        assert [one.id for one in await client.memory.list()] == [goal.fact.id, moved.fact.id]
        assert [one.id for one in await client.memory.list(kind="goal")] == [goal.fact.id]
        assert [one.id for one in await client.memory.list(words="PORTO")] == [moved.fact.id]
        assert len(await client.memory.list(everything=True)) == 3
        assert goal.fact.pinned
        edited = await client.memory.edit(goal.fact.id, text="I want to learn Zig")
        assert (edited.text, edited.pinned) == ("I want to learn Zig", True)
        assert not (await client.memory.pin(goal.fact.id, pinned=False)).pinned
        assert [old.id for old in await client.memory.history(moved.fact.id)] == [first.fact.id]
        assert len((await client.memory.export())["facts"]) == 3
        assert await client.memory.forget(moved.fact.id, history=True) == 2
        with pytest.raises(MemoryMissing):
            await client.memory.pin(moved.fact.id)
        assert await client.memory.forget_all() == 1
        assert await client.memory.list(everything=True) == []


async def test_what_a_turn_would_be_told_is_told_with_its_reason(stage: Stage) -> None:
    await stage.books.memory.remember("ada", "I am allergic to walnuts")
    async with stage.client() as client:
        fact = (await client.memory.add("I am allergic to peanuts")).fact
        await client.memory.add("I live in Lisbon")
        told = await client.memory.recall("am I allergic to something?", tokens=200)
        assert told.items[0][0].id == fact.id
        assert "allergic" in told.items[0][1]
        assert "peanuts" in told.text
        assert 0 < told.tokens <= 200
        assert "walnuts" not in told.text


async def test_memory_is_turned_off_and_on(stage: Stage) -> None:
    async with stage.client() as client:
        assert await client.memory.is_on()
        await client.memory.turn(on=False)
        assert not await client.memory.is_on()
        with pytest.raises(MemoryOff):
            await client.memory.add("I live in Lisbon")
        await client.memory.turn(on=True)
        await client.memory.turn(on=False, session="ses-1")
        assert await client.memory.is_on()
        assert not await client.memory.is_on(session="ses-1")


async def test_the_memory_of_another_user_is_missing(stage: Stage) -> None:
    hers = (await stage.books.memory.remember("ada", "I live in Paris")).fact.id
    async with stage.client() as client, stage.server.client() as http:
        assert await client.memory.list(everything=True) == []
        assert (await client.memory.export())["facts"] == []
        path = f"/api/v1/memory/facts/{hers}"
        tries = (
            ("GET", None), ("PATCH", {"pinned": True}), ("PATCH", {"text": "I am"}), ("DELETE", None),
        )  # fmt: skip
        for method, json in tries:
            answer = await http.request(method, path, json=json)
            assert (answer.status_code, answer.json()["code"]) == (404, "memory-missing"), method
        assert (await http.get(f"{path}/history")).status_code == 404
        assert await client.memory.forget_all() == 0
    assert (await stage.books.memory.find("ada", hers)).text == "Lives in Paris"


async def test_a_secret_is_not_kept_and_bad_fields_are_refused(stage: Stage) -> None:
    async with stage.client() as client:
        with pytest.raises(SecretRefused):
            await client.memory.add("My password is hunter2-Zx81kLq0")
    async with stage.server.client() as http:
        bad: tuple[Any, ...] = (
            {}, {"text": ""}, {"text": "x" * 4001}, {"text": "I am", "kind": "rumour"},
            {"text": "I am", "user": "ada"}, {"text": 7}, [], "text",
        )  # fmt: skip
        for body in bad:
            answer = await http.post("/api/v1/memory/facts", json=body)
            assert answer.status_code == 422, body
        assert (await http.put("/api/v1/memory/settings", json={"on": "maybe"})).status_code == 422
        assert (await http.get("/api/v1/memory/facts/a%20b")).status_code == 422
        assert (await http.get("/api/v1/memory/summaries?cursor=YTpi")).status_code == 422
    async with stage.server.client(Scope.READ) as http:
        answer = await http.post("/api/v1/memory/facts", json={"text": "I live in Lisbon"})
        assert answer.status_code == 403
        assert (await http.delete("/api/v1/memory")).status_code == 403


async def test_summaries_are_listed_the_latest_first_and_only_ones_own(stage: Stage) -> None:
    rows = [
        {
            "session": f"ses-{index}", "user_id": user, "covers": index, "text": f"of {index}",
            "made_at": 1000.0 + index // 2, "is_stale": stale, "blobs": [],
        }
        for index, user, stale in (
            (1, "local", False), (2, "local", False), (3, "local", False), (4, "ada", False),
            (5, "local", True),
        )
    ]  # fmt: skip
    await stage.books.database.run(lambda c: c.execute(insert(memory_summaries), rows))
    async with stage.client() as client, stage.server.client() as http:
        found = await client.memory.summaries()
        assert [one.session for one in found] == ["ses-3", "ses-2", "ses-1"]
        page = (await http.get("/api/v1/memory/summaries", params={"limit": 1})).json()
        assert [one["text"] for one in page["items"]] == ["of 3"]
        rest = await http.get("/api/v1/memory/summaries", params={"cursor": page["next"]})
        assert [one["session"] for one in rest.json()["items"]] == ["ses-2", "ses-1"]


async def test_budgets_tell_what_was_spent_and_what_is_left(stage: Stage) -> None:
    budgets = stage.books.budgets
    limit = Limit(measure=Measure.USD, period=Period.MONTH, amount=2_500_000)
    await budgets.set_limit("user:local", limit)
    await budgets.set_limit("user:ada", limit)
    stage.play(Say(text="Yes."))
    async with stage.client() as client, await client.create_session() as session:
        scopes = ("user:local", f"session:{session.id}")
        held = await budgets.reserve(scopes, Amount(tokens=50, usd=1_000_000, calls=1))
        await held.settle(Amount(tokens=40, usd=500_000, calls=1))
        of_user = await client.get_budget()
        assert (of_user.scope, of_user.plan) == ("user:local", "")
        assert (of_user.spent["tokens"], of_user.spent["usd"]) == (40, 0.5)
        (left,) = of_user.limits
        assert (left.measure, left.period, left.limit, left.remaining) == ("usd", "month", 2.5, 2.0)
        assert left.resets_at is not None
        of_session = await session.get_budget()
        assert (of_session.spent["calls"], of_session.limits) == (1, ())
        await stage.books.users.add("local", plan="free")
        with_plan = await client.get_budget()
        assert with_plan.plan == "free"
        assert len(with_plan.limits) > 1
    async with stage.server.client() as http:
        assert (await http.get("/api/v1/sessions/ses-none/budget")).status_code == 404
        assert (await http.get("/api/v1/sandboxes/none/budget")).status_code == 404
