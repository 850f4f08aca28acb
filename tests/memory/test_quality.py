"""How well recall finds what was meant, on the labelled set, without any network."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.memory.conftest import SharedEmbedder
from tests.memory.labelled import FACTS, QUESTIONS

from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.memory.shelf import Shelf
from crucible.store.database import Database

USER = "marta"
LEAST = 0.85


@pytest.fixture(scope="module")
def filled(
    run: Run,
    sqlite_template: Path,
    embedder: SharedEmbedder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Database]:
    path = tmp_path_factory.mktemp("labelled") / "crucible.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    memory = Memory(database, extractor=RuleExtractor(), embedder=embedder)
    export = {
        "format": 1,
        "facts": [{"text": text, "kind": "fact", "attribute": key} for key, text in FACTS.items()],
    }
    imported = run(memory.import_(USER, export))
    assert len(imported.changes) == len(FACTS)
    yield database
    database.close()


def test_the_set_is_large_enough() -> None:
    assert len(FACTS) >= 100
    assert len(QUESTIONS) >= 60
    assert {answer for _, answer in QUESTIONS} <= set(FACTS)


async def test_meaning_and_words_find_what_was_meant(
    filled: Database, embedder: SharedEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = await embedder.embed([question for question, _ in QUESTIONS])
    shelf, plain = Shelf(USER, embedder.model), Shelf(USER, "")
    filled.look(shelf.follow)
    filled.look(plain.follow)
    ranks: dict[str, list[int]] = {"words": [], "vectors": [], "fused": []}
    from crucible.memory.records import pack

    for (question, answer), vector in zip(QUESTIONS, vectors, strict=True):
        packed = pack(vector)
        ranks["words"].append(_rank(plain, question, None, answer))
        ranks["vectors"].append(_rank(shelf, "", packed, answer))
        ranks["fused"].append(_rank(shelf, question, packed, answer))
    with capsys.disabled():
        print(f"\nrecall over {len(FACTS)} facts, {len(QUESTIONS)} questions")
        for way, found in ranks.items():
            hits = "  ".join(f"hit@{k} {_hit(found, k):.3f}" for k in (1, 3, 5, 10))
            print(f"  {way:<8}{hits}")
    assert _hit(ranks["fused"], 5) >= LEAST
    assert _hit(ranks["fused"], 5) > _hit(ranks["words"], 5)


async def test_recall_itself_finds_as_many(filled: Database, embedder: SharedEmbedder) -> None:
    memory = Memory(filled, extractor=RuleExtractor(), embedder=embedder)
    found = []
    for question, answer in QUESTIONS:
        recalled = await memory.recall(USER, question, 4000)
        found.append(
            answer in [item.fact.attribute.replace("-", "_") for item in recalled.items[:5]]
        )
    assert statistics.mean(found) >= LEAST


def _rank(shelf: Shelf, question: str, vector: bytes | None, answer: str) -> int:
    hits = shelf.search(question, vector, most=50, now=0.0)
    keys = [hit.fact.attribute.replace("-", "_") for hit in hits]
    return keys.index(answer) if answer in keys else len(FACTS)


def _hit(ranks: list[int], k: int) -> float:
    return sum(rank < k for rank in ranks) / len(ranks)


def test_the_embedder_is_shared_by_loops(embedder: SharedEmbedder) -> None:
    (vector,) = asyncio.run(_one(embedder))
    assert len(vector) == 384
    assert sum(value * value for value in vector) == pytest.approx(1, abs=1e-3)


async def _one(embedder: SharedEmbedder) -> list[list[float]]:
    return [list(vector) for vector in await embedder.embed(["one"])]
