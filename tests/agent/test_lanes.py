"""Lanes: limits hold, Execute goes before Generate, Control and Query wait for neither."""

from __future__ import annotations

import asyncio

from tests.agent.scenes import run

from crucible.agent.facts import LaneFacts
from crucible.agent.lanes import LaneLimits, Lanes, Name

ONE = LaneLimits(control=1, query=1, execute=2, generate=2, together=1)


def facts(lanes: Lanes, name: Name) -> LaneFacts:
    (found,) = [one for one in lanes.facts() if one.name == name]
    return found


async def hold(lanes: Lanes, name: Name, order: list[str], leave: asyncio.Event) -> None:
    async with lanes.enter(name):
        order.append(name)
        await leave.wait()


def test_execute_goes_before_generate_and_control_waits_for_neither() -> None:
    async def play() -> None:
        lanes, order, leave = Lanes(ONE), list[str](), asyncio.Event()
        names: tuple[Name, ...] = ("generate", "generate", "execute")
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(hold(lanes, name, order, leave)))
            await asyncio.sleep(0)
        assert order == ["generate"]
        assert (facts(lanes, "generate").waiting, facts(lanes, "execute").waiting) == (1, 1)
        async with lanes.enter("control"), lanes.enter("query"):
            assert facts(lanes, "control").running == 1
        leave.set()
        await asyncio.gather(*tasks)
        assert order == ["generate", "execute", "generate"]
        assert [one.running + one.waiting for one in lanes.facts()] == [0, 0, 0, 0]
        assert facts(lanes, "generate").done == 2

    run(play())


def test_who_gives_up_waiting_leaves_no_hole() -> None:
    async def play() -> None:
        lanes, order, leave = Lanes(ONE), list[str](), asyncio.Event()
        first = asyncio.create_task(hold(lanes, "generate", order, leave))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(hold(lanes, "generate", order, leave)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        leave.set()
        # Given up in the very moment in which its place comes.
        await first
        waiting[0].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        async with asyncio.timeout(60), lanes.enter("generate"):
            assert facts(lanes, "generate").running == 1
        assert facts(lanes, "generate").running == 0

    run(play())
