"""A queue with a limit and a deadline, and a refusal that says when to come again."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import Run

from crucible.errors import Overloaded
from crucible.sandbox.pool.turnstile import QueueLimits, Turnstile


async def stay(turnstile: Turnstile, inside: asyncio.Event, leave: asyncio.Event) -> None:
    async with turnstile.turn():
        inside.set()
        await leave.wait()


async def busy(turnstile: Turnstile, leave: asyncio.Event) -> asyncio.Task[None]:
    inside = asyncio.Event()
    task = asyncio.create_task(stay(turnstile, inside, leave))
    await inside.wait()
    return task


async def test_who_finds_the_queue_full_is_refused_at_once_and_told_when_to_come_again(
    run: Run,
) -> None:
    turnstile = Turnstile(QueueLimits(running=1, waiting=0, wait_s=30.0))
    leave = asyncio.Event()
    task = await busy(turnstile, leave)
    with pytest.raises(Overloaded) as refusal:
        async with turnstile.turn():
            pass
    assert refusal.value.retry_after_s == 15
    assert refusal.value.as_fields()["retry_after_s"] == 15
    assert turnstile.facts()["refused"] == 1
    leave.set()
    await task


async def test_who_waits_too_long_is_refused(run: Run) -> None:
    turnstile = Turnstile(QueueLimits(running=1, waiting=5, wait_s=0.05))
    leave = asyncio.Event()
    task = await busy(turnstile, leave)
    with pytest.raises(Overloaded, match="did not come within"):
        async with turnstile.turn():
            pass
    assert (turnstile.running, turnstile.waiting) == (1, 0)
    leave.set()
    await task


async def test_a_turn_comes_when_one_leaves_and_none_is_lost_by_who_gives_up(run: Run) -> None:
    turnstile = Turnstile(QueueLimits(running=1, waiting=5, wait_s=60.0))
    leave = asyncio.Event()
    first = await busy(turnstile, leave)
    inside, never = asyncio.Event(), asyncio.Event()
    given_up = asyncio.create_task(stay(turnstile, inside, never))
    await asyncio.sleep(0)
    assert turnstile.waiting == 1
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    waiting = [asyncio.create_task(stay(turnstile, asyncio.Event(), leave)) for _ in range(3)]
    leave.set()
    await asyncio.gather(first, *waiting)
    assert (turnstile.running, turnstile.waiting, turnstile.refused) == (0, 0, 0)
