"""Sandboxes that live as long as a caller is there, and a lease longer."""

from __future__ import annotations

import time

from tests.server.conftest import until
from tests.server.scripted import Staged, new_box

from crucible.sandbox.expiry import expires_at
from crucible.server.tokens import Scope

BOX = "/api/v1/sandboxes/box"


def left_s(staged: Staged, name: str = "box") -> float | None:
    """How long it will live if nobody does anything."""
    end = expires_at(staged.domain.manager.records.find(name))
    return None if end is None else end - time.time()


def names(staged: Staged) -> list[str]:
    return [record.name for record in staged.domain.manager.records.sandboxes()]


async def test_a_sandbox_goes_with_who_holds_it(staged: Staged) -> None:
    await new_box(staged, settings={"network": "off", "ttl_s": 1000.0})
    async with staged.client(Scope.RUN) as client:
        async with client.stream("POST", f"{BOX}/hold", params={"lease_s": 600}) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "event: held"
            assert 500 < (left_s(staged) or 0) <= 600
            assert names(staged) == ["box"]
        await until(lambda: not names(staged))


async def test_the_server_that_leaves_does_not_take_it_along(staged: Staged) -> None:
    await new_box(staged)
    async with (
        staged.client(Scope.RUN) as client,
        client.stream("POST", f"{BOX}/hold", params={"lease_s": 600, "ttl_s": 300}) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "event: held"
        assert 200 < (left_s(staged) or 0) <= 300, "not longer than it may live at all"
        staged.domain.is_ready = False
        assert [line async for line in lines if line.startswith("event")] == ["event: leaving"]
    staged.domain.is_ready = True
    assert names(staged) == ["box"]


async def test_one_that_is_removed_meanwhile_is_told(staged: Staged) -> None:
    await new_box(staged)
    async with (
        staged.client(Scope.RUN) as client,
        client.stream("POST", f"{BOX}/hold") as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "event: held"
        await client.delete(BOX, params={"force": True})
        # Another one of that name is not the one that is held.
        await new_box(staged)
        told = [line async for line in lines if line]
        assert told[-2] == "event: error"
        assert "sandbox-missing" in told[-1]
    assert names(staged) == ["box"]


async def test_a_lease_begins_when_the_sandbox_runs(staged: Staged) -> None:
    await new_box(staged, lease_s=60.0, settings={"network": "off", "ttl_s": 960.0})
    assert 0 < (left_s(staged) or 0) <= 60
    await new_box(staged, "short", lease_s=60.0, settings={"network": "off", "ttl_s": 20.0})
    assert 0 < (left_s(staged, "short") or 0) <= 20


async def test_who_may_not_use_it_may_not_hold_it(staged: Staged) -> None:
    await new_box(staged)
    async with staged.client(Scope.READ) as client:
        assert (await client.post(f"{BOX}/hold")).status_code == 403
    async with staged.client(Scope.RUN) as client:
        assert (await client.post("/api/v1/sandboxes/nobody/hold")).status_code == 404
        assert (await client.post(f"{BOX}/hold", params={"lease_s": 1})).status_code == 422
    assert left_s(staged) is None
