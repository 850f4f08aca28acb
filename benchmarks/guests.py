"""Inside a machine: first and later commands in a fresh clone; pause and resume; snapshot and fork."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from benchmarks.figures import Figure
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, milliseconds
from crucible import assemble
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

_LATER = 3
_ORIGINAL = "original"
_SHELL = (b"sh", b"-c", b"echo hi")
_PYTHON = (b"python3", b"-c", b"print(1)")


def measure(place: Place, runner: asyncio.Runner, *, rounds: int) -> list[Figure]:
    async def make() -> Manager:
        return assemble.manager(place.config)

    manager = runner.run(make())
    place.start(_ORIGINAL)
    cases = [
        Case(measure=lambda: runner.run(_commands(manager, "sh", _SHELL))),
        Case(measure=lambda: runner.run(_commands(manager, "python", _PYTHON))),
        Case(measure=lambda: runner.run(_pause(manager))),
        Case(measure=lambda: _snapshot(place)),
        Case(measure=lambda: _fork(place)),
    ]
    try:
        samples = interleave("inside", cases, rounds)
    finally:
        manager.records.close()
        place.remove(_ORIGINAL)
        place.end_owner()
    return _figures(samples)


async def _commands(manager: Manager, name: str, argv: tuple[bytes, ...]) -> Readings:
    async with manager.open(SandboxSpec()) as held:
        first = await _timed_command(held, argv)
        later = [await _timed_command(held, argv) for _ in range(_LATER)]
    return {f"{name}-first": first, f"{name}-later": sorted(later)[_LATER // 2]}


async def _timed_command(held: Held, argv: tuple[bytes, ...]) -> float:
    command = Command(
        argv=argv, user=held.image.user, workdir=held.image.workdir.encode(), timeout_s=60
    )
    began = time.perf_counter()
    done = await held.machine.run(command)
    seconds = time.perf_counter() - began
    if done.exit.status != 0:
        raise RuntimeError(f"{argv!r} failed: {done.errors!r}")
    return seconds


async def _pause(manager: Manager) -> Readings:
    async with manager.open(SandboxSpec()) as held:
        began = time.perf_counter()
        await held.machine.pause()
        paused = time.perf_counter()
        await held.machine.resume()
        await held.machine.stats()
        answered = time.perf_counter()
    return {"pause": paused - began, "resume": answered - paused}


def _snapshot(place: Place) -> Readings:
    began = time.perf_counter()
    place.ask("snapshot", name=_ORIGINAL, tag="bench")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    place.ask("restore", tag="bench", name="restored")
    restored = time.perf_counter() - began
    place.remove("restored")
    place.ask("snapshot_remove", tag="bench")
    return {"snapshot": seconds, "snapshot-restore": restored}


def _fork(place: Place) -> Readings:
    began = time.perf_counter()
    place.ask("fork", name=_ORIGINAL, names=["copy"])
    seconds = time.perf_counter() - began
    place.remove("copy")
    return {"fork": seconds}


def _figures(samples: Mapping[str, list[float]]) -> list[Figure]:
    names = {
        "sh-first": "sh -c 'echo hi' in a fresh clone, the first",
        "sh-later": "sh -c 'echo hi', later ones",
        "python-first": "python3 -c 'print(1)' in a fresh clone, the first",
        "python-later": "python3 -c 'print(1)', later ones",
        "pause": "pause",
        "resume": "resume, to an answer",
        "snapshot": "snapshot of a running sandbox",
        "snapshot-restore": "a sandbox from a snapshot",
        "fork": "fork, one copy",
    }
    return [
        Figure(key=key, name=name, samples=milliseconds(samples.get(key)))
        for key, name in names.items()
    ]
