"""The pool in a process of ours: it gives way to memory, to age and to a new image, and leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.conftest import Run
from tests.e2e.leftovers import leftovers

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.manager import Manager
from crucible.sandbox.pool.pool import Pool, PoolLimits
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm


class Memory:
    """What the host has left, as the test says."""

    def __init__(self) -> None:
        self.available_mib = 1 << 20

    def __call__(self) -> int:
        return self.available_mib


@asynccontextmanager
async def filling(
    config: Config, memory: Memory, *, age_s: float = 3600.0
) -> AsyncIterator[tuple[Manager, Pool]]:
    manager = assemble.manager(config)
    pool = Pool(
        limits=PoolLimits(minimum=2, maximum=2, age_s=age_s, pressure_mib=1024),
        records=manager.records,
        machines=manager.machines,
        new_records=manager.new_records,
        remains=manager.remains,
        available_mib=memory,
    )
    manager.opening.pool = pool
    running = asyncio.create_task(pool.run(SandboxSpec()))
    try:
        yield manager, pool
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        manager.records.close()
    assert leftovers(config.home) == []


async def until_warm(pool: Pool, count: int) -> None:
    while pool.facts()["warm"] != count:  # noqa: ASYNC110 - the pool tells nobody
        await asyncio.sleep(0.05)


async def test_under_memory_pressure_nothing_waits_and_later_it_does_again(
    run: Run, config: Config
) -> None:
    memory = Memory()
    async with filling(config, memory) as (manager, pool):
        await until_warm(pool, 2)
        memory.available_mib = 1000
        await until_warm(pool, 0)
        while manager.records.sandboxes():  # noqa: ASYNC110 - the last one is just being ended
            await asyncio.sleep(0.05)
        memory.available_mib = 1 << 20
        await until_warm(pool, 2)


async def test_what_has_waited_too_long_is_replaced(run: Run, config: Config) -> None:
    async with filling(config, Memory(), age_s=2.0) as (manager, pool):
        # Not two: on a slow host the first may be too old by the time of the second.
        while pool.facts()["warm"] == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        first = {record.id for record in manager.records.sandboxes()}
        while first & {record.id for record in manager.records.sandboxes()}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_machine_that_died_while_it_waited_is_given_to_nobody(
    run: Run, config: Config
) -> None:
    async with filling(config, Memory()) as (manager, pool):
        await until_warm(pool, 2)
        for record in manager.records.sandboxes():
            manager.machines.backend(record.backend).bury(record.directory, record.id, None)
        async with manager.open(SandboxSpec()) as held:
            assert not held.machine.has_ended
        await until_warm(pool, 2)


async def test_a_machine_is_handed_out_once_however_many_ask(run: Run, config: Config) -> None:
    async with filling(config, Memory()) as (manager, pool):
        await until_warm(pool, 2)

        async def use() -> str:
            async with manager.open(SandboxSpec()) as held:
                return held.record.id

        used = await asyncio.gather(*(use() for _ in range(4)))
        assert len(set(used)) == 4
        assert pool.facts()["in_use"] == 0
        again = await use()
        assert again not in used
