"""A sandbox has the memory, processors and disk it was given, whatever its template has."""

from __future__ import annotations

import asyncio

import pytest

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.session import Command, Stats
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

_MIB = 1 << 20


def figures(config: Config, spec: SandboxSpec) -> tuple[Stats, int]:
    """What the guest's kernel says of itself, and how many processors a program sees."""

    async def ask() -> tuple[Stats, int]:
        async with assemble.manager(config).open(spec) as held:
            done = await held.machine.run(Command(argv=[b"nproc"]))
            return await held.machine.stats(), int(done.output)

    return asyncio.run(ask())


def test_a_disk_larger_than_the_templates_is_as_large_as_asked(config: Config) -> None:
    stats, _ = figures(config, SandboxSpec(disk_mib=20 * 1024))
    assert 0.95 * 20 * 1024 * _MIB < stats.disk_total <= 20 * 1024 * _MIB


def test_a_disk_smaller_than_the_templates_is_as_small_as_asked(config: Config) -> None:
    stats, _ = figures(config, SandboxSpec(disk_mib=512))
    assert 0.85 * 512 * _MIB < stats.disk_total <= 512 * _MIB


def test_memory_and_processors_are_those_that_were_asked_for(config: Config) -> None:
    stats, processors = figures(config, SandboxSpec(memory_mib=1024, cpus=2))
    assert 0.85 * 1024 * _MIB < stats.memory_total <= 1024 * _MIB
    assert processors == 2
