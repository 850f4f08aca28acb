"""What recording a step costs, and checking a run: beside a plain row in SQLite, which is the least it could be.

Rates follow from the figures: a thousand entries in so many milliseconds.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.figures import AtMost, Figure
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, milliseconds
from crucible.ledger.ledger import Ledger, Recorded
from crucible.ledger.steps import Kind, Step
from crucible.store.database import Database

_RUN = "bench"
_CONTENT = b"x" * 2000
_ENTRIES = 1000
_AT_ONCE = 50


def measure(place: Place, runner: asyncio.Runner, *, rounds: int) -> list[Figure]:
    directory = Path(tempfile.mkdtemp(prefix="ledger-", dir=place.scratch))
    database = Database(f"sqlite:///{directory / 'crucible.db'}")
    ledger = Ledger(directory, database)
    plain = sqlite3.connect(directory / "plain.db", isolation_level=None)
    plain.execute("PRAGMA journal_mode=WAL")
    plain.execute("PRAGMA synchronous=NORMAL")
    plain.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")
    try:
        runner.run(ledger.open_run(_RUN))
        one_by_one = interleave(
            "ledger",
            [
                Case(measure=lambda: _row(plain)),
                Case(measure=lambda: runner.run(_append(ledger, "append", None))),
                Case(measure=lambda: runner.run(_append(ledger, "contents", _CONTENT))),
            ],
            rounds * 10,
        )
        many = interleave(
            "ledger", [Case(measure=lambda: _many(ledger, runner))], max(2, rounds // 10)
        )
        return _figures({**one_by_one, **many})
    finally:
        ledger.close()
        database.close()
        plain.close()
        shutil.rmtree(directory)


def _row(plain: sqlite3.Connection) -> Readings:
    began = time.perf_counter()
    plain.execute("INSERT INTO rows (text) VALUES (?)", ("x" * 500,))
    return {"row": time.perf_counter() - began}


async def _append(ledger: Ledger, key: str, content: bytes | None) -> Readings:
    began = time.perf_counter()
    await ledger.append(_RUN, _step(), content, content)
    return {key: time.perf_counter() - began}


def _many(ledger: Ledger, runner: asyncio.Runner) -> Readings:
    """A run of its own each time, written by many tasks, then in bulk, and checked with and without contents."""
    written, bulk = f"written-{time.time_ns()}", f"bulk-{time.time_ns()}"
    at_once = runner.run(_at_once(ledger, written))
    runner.run(ledger.open_run(bulk))
    began = time.perf_counter()
    runner.run(ledger.append_all(bulk, [Recorded(step=_step())] * _ENTRIES))
    in_bulk = time.perf_counter() - began
    ledger.settle()
    return {
        "at once": at_once,
        "bulk": in_bulk,
        "verify": _verify(ledger, bulk),
        "verify contents": _verify(ledger, written),
    }


async def _at_once(ledger: Ledger, run: str) -> float:
    await ledger.open_run(run)

    async def work() -> None:
        for _ in range(_ENTRIES // _AT_ONCE):
            await ledger.append(run, _step(), _CONTENT, _CONTENT)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return time.perf_counter() - began


def _verify(ledger: Ledger, run: str) -> float:
    began = time.perf_counter()
    verdict = ledger.verify_now(run)
    took = time.perf_counter() - began
    if not verdict.is_whole or verdict.count != _ENTRIES:
        raise RuntimeError(f"what was recorded is not whole: {verdict.findings}")
    return took


def _step() -> Step:
    return Step(
        kind=Kind.TOOL_CALL,
        started_us=time.time_ns() // 1000,
        duration_us=1000,
        sandbox="bench",
        exit_status=0,
        facts={"tool": "bash"},
    )


def _figures(samples: dict[str, list[float]]) -> list[Figure]:
    named = {
        "row": "a row in SQLite by the standard library, beside these",
        "append": "ledger: one entry",
        "contents": "ledger: one entry with 2 kB in and 2 kB out",
        "at once": f"ledger: {_ENTRIES} such entries, by {_AT_ONCE} tasks at once",
        "bulk": f"ledger: {_ENTRIES} entries in one transaction",
        "verify": f"ledger: verify {_ENTRIES} entries",
        "verify contents": f"ledger: verify {_ENTRIES} entries and their contents",
    }
    targets = {"append": (AtMost(limit=2.0),), "contents": (AtMost(limit=4.0),)}
    return [
        Figure(
            key=f"ledger {key}",
            name=name,
            samples=milliseconds(samples.get(key)),
            targets=targets.get(key, ()),
        )
        for key, name in named.items()
    ]
