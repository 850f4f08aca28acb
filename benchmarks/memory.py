"""Recall among 10,000 facts of one user: the question's vector, the search, and both with the database around them.

The facts are made of chance words and have vectors of chance: a search takes as long whatever they mean.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sqlalchemy import Connection

from benchmarks.figures import AtMost, Figure
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, milliseconds
from crucible import weights
from crucible.memory import records
from crucible.memory.embedding import MiniLM
from crucible.memory.facts import Candidate, Fact, Source
from crucible.memory.memory import Memory
from crucible.memory.minilm import DIMENSIONS
from crucible.memory.rules import RuleExtractor
from crucible.memory.settling import new_id
from crucible.memory.shelf import Shelf
from crucible.store.database import Database

FACTS = 10_000
_USER = "bench"
_NOUNS = (
    "boat", "house", "train", "garden", "river", "cat", "guitar", "mountain", "bakery", "violin", "bridge",
    "market", "lamp", "forest",
)  # fmt: skip
_VERBS = (
    "owns",
    "sold",
    "painted",
    "lost",
    "found",
    "likes",
    "avoids",
    "repairs",
    "visits",
    "wants",
)
_QUESTIONS = (
    "which boat did I paint near the river?",
    "what do I own that makes music?",
    "where did I lose the lamp?",
)


def measure(place: Place, runner: asyncio.Runner, *, rounds: int) -> list[Figure]:
    if not weights.is_installed():
        why = f"the embedding model is not installed: {weights.INSTALL_COMMAND}"
        return [_figure(key, (), why) for key in _NAMES]
    database = Database(f"sqlite:///{place.scratch / 'memory.db'}")
    embedder = runner.run(_embedder(place.home))
    try:
        database.do(_fill)
        memory = Memory(database, extractor=RuleExtractor(), embedder=embedder)
        shelf = Shelf(_USER, embedder.model)
        database.look(shelf.follow)
        vectors = [records.pack(one) for one in runner.run(embedder.embed(_QUESTIONS))]
        turn = _Turns()
        samples = interleave(
            "memory",
            [
                _case(runner, "memory.embed", lambda: embedder.embed([_QUESTIONS[turn.next()]])),
                Case(measure=lambda: _search(shelf, vectors, turn.next())),
                _case(
                    runner,
                    "memory.recall",
                    lambda: memory.recall(_USER, _QUESTIONS[turn.next()], 1000),
                ),
                Case(measure=lambda: _first(database, embedder.model), every=10),
            ],
            rounds,
        )
    finally:
        runner.run(embedder.close())
        database.close()
    return [_figure(key, milliseconds(samples.get(key)), "") for key in _NAMES]


_NAMES = {
    "memory.embed": "the vector of a question (all-MiniLM-L6-v2, child process)",
    "memory.search": f"search by meaning and words among {FACTS:,} facts",
    "memory.recall": f"a whole recall among {FACTS:,} facts",
    "memory.first": f"reading {FACTS:,} facts, once per user and process",
}
_LIMITS = {"memory.search": 50.0, "memory.recall": 100.0}


def _figure(key: str, samples: tuple[float, ...], why: str) -> Figure:
    targets = (AtMost(limit=_LIMITS[key]),) if key in _LIMITS else ()
    return Figure(key=key, name=_NAMES[key], samples=samples, targets=targets, why_missing=why)


class _Turns:
    """Another question each time."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> int:
        self._count += 1
        return self._count % len(_QUESTIONS)


async def _embedder(home: Path) -> MiniLM:
    return MiniLM(home, idle_s=3600.0)


def _case(runner: asyncio.Runner, key: str, work: Callable[[], Awaitable[object]]) -> Case:
    async def once() -> float:
        began = time.perf_counter()
        await work()
        return time.perf_counter() - began

    return Case(measure=lambda: {key: runner.run(once())})


def _search(shelf: Shelf, vectors: list[bytes], number: int) -> Readings:
    began = time.perf_counter()
    shelf.search(_QUESTIONS[number], vectors[number], most=50, now=0.0)
    return {"memory.search": time.perf_counter() - began}


def _first(database: Database, model: str) -> Readings:
    began = time.perf_counter()
    database.look(Shelf(_USER, model).follow)
    return {"memory.first": time.perf_counter() - began}


def _fill(connection: Connection) -> None:
    chance = random.Random(5)
    generation = records.begin_change(connection, _USER)
    for number in range(FACTS):
        text = f"{chance.choice(_VERBS)} the {' and the '.join(chance.sample(_NOUNS, 3))} {number}"
        flat = [chance.gauss(0, 1) for _ in range(DIMENSIONS)]
        length = sum(value * value for value in flat) ** 0.5
        records.add(
            connection,
            _fact(Candidate(text=text.capitalize(), kind="fact")),
            vector=records.pack([value / length for value in flat]),
            model=MiniLM.model,
            generation=generation,
        )


def _fact(candidate: Candidate) -> Fact:
    return Fact(
        id=new_id(),
        user=_USER,
        kind=candidate.kind,
        text=candidate.text,
        attribute="",
        source=Source(),
        confidence=1.0,
        created_at=0.0,
        updated_at=0.0,
        recalled_at=None,
        recalls=0,
        expires_at=None,
        is_pinned=False,
        state="active",
        superseded_by="",
    )
