"""How well recall finds what was meant, on the labelled set, without any network."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.memory import labelled, unseen
from tests.memory.conftest import SharedEmbedder
from tests.memory.labelled import FACTS, QUESTIONS

from crucible.memory.memory import Memory
from crucible.memory.records import pack
from crucible.memory.rules import RuleExtractor
from crucible.memory.shelf import Shelf
from crucible.memory.words import exact_terms
from crucible.store.database import Database

USER, OTHER = "marta", "solveig"
LEAST = 0.85

Asked = Sequence[tuple[str, str]]
UNSEEN = [(question, answer) for _, question, answer in unseen.QUESTIONS]
# Facts that differ in nothing but a number, as those of somebody's tickets do.
TICKETS = {
    f"ticket_{number}": f"Ticket WTG-{number} says that the {what}."
    for number, what in zip(
        range(20_900, 20_960), ("oil is hot", "brake chatters", "lamp blinks") * 20, strict=True
    )
}
OF_TICKETS = [
    (form.format(number), f"ticket_{number}")
    for number, form in zip(
        range(20_902, 20_960, 6),
        ("what is WTG-{} about?", "please write my manager a summary of ticket WTG-{}") * 5,
        strict=True,
    )
]


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
    for user, facts in ((USER, FACTS), (OTHER, unseen.FACTS | TICKETS)):
        listed = [{"text": text, "kind": "fact", "attribute": key} for key, text in facts.items()]
        imported = run(memory.import_(user, {"format": 1, "facts": listed}))
        assert len(imported.changes) == len(facts)
    yield database
    database.close()


@pytest.fixture(scope="module")
def known(run: Run, embedder: SharedEmbedder) -> Known:
    """The vectors of all questions, made once and together."""
    texts = [question for question, _ in (*QUESTIONS, *UNSEEN, *OF_TICKETS)]
    return Known(dict(zip(texts, run(embedder.embed(texts)), strict=True)))


def test_the_sets_are_large_enough() -> None:
    assert len(FACTS) >= 100
    assert len(QUESTIONS) >= 60
    for found in (labelled, unseen):
        assert {question[-1] for question in found.QUESTIONS} <= set(found.FACTS)


async def test_meaning_and_words_find_what_was_meant(
    filled: Database, known: Known, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = await _ranks(USER, QUESTIONS, filled, known)
    _show(capsys, f"{len(FACTS)} facts, {len(QUESTIONS)} questions", ranks)
    assert _hit(ranks["fused"], 5) >= LEAST
    assert _hit(ranks["fused"], 5) > _hit(ranks["words"], 5)


async def test_what_no_weight_was_chosen_by_is_found_as_well(
    filled: Database, known: Known, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = await _ranks(OTHER, UNSEEN, filled, known)
    _show(capsys, f"{len(unseen.FACTS)} other facts, {len(UNSEEN)} questions", ranks)
    assert _hit(ranks["fused"], 5) >= LEAST
    assert _hit(ranks["fused"], 5) > _hit(ranks["words"], 5)


async def test_words_find_what_vectors_do_not_tell_apart(
    filled: Database, known: Known, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = await _ranks(OTHER, OF_TICKETS, filled, known)
    _show(capsys, f"{len(TICKETS)} facts that differ in a number", ranks)
    assert _hit(ranks["fused"], 1) >= 0.9
    assert _hit(ranks["fused"], 1) > _hit(ranks["vectors"], 1)


def test_names_and_identifiers_are_meant_to_the_letter() -> None:
    assert exact_terms("what is HK-7741-B, and who is Ingrid?") == {"hk-7741-b", "ingrid"}
    assert exact_terms("Tell me. Where is kick2 used, on the iPhone?") == {"kick2", "iphon"}
    assert exact_terms("Where do I live? And since when") == set()
    assert exact_terms("WHERE DO I LIVE, AND IN ROOM 12?") == {"12"}
    assert exact_terms("") == set()


async def test_recall_itself_finds_as_many(filled: Database, known: Known) -> None:
    memory = Memory(filled, extractor=RuleExtractor(), embedder=known)
    found = []
    for user, asked in ((USER, QUESTIONS), (OTHER, OF_TICKETS)):
        for question, answer in asked:
            recalled = await memory.recall(user, question, 4000)
            keys = [item.fact.attribute.replace("-", "_") for item in recalled.items[:5]]
            found.append(answer in keys)
    assert statistics.mean(found) >= LEAST


class Known:
    """Gives vectors that were made before, all at once."""

    model = SharedEmbedder.model

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self._vectors = vectors

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self._vectors[text] for text in texts]


async def _ranks(user: str, asked: Asked, filled: Database, known: Known) -> dict[str, list[int]]:
    vectors = await known.embed([question for question, _ in asked])
    shelf, plain = Shelf(user, known.model), Shelf(user, "")
    filled.look(shelf.follow)
    filled.look(plain.follow)
    ranks: dict[str, list[int]] = {"words": [], "vectors": [], "fused": []}
    for (question, answer), vector in zip(asked, vectors, strict=True):
        packed = pack(vector)
        ranks["words"].append(_rank(plain, question, None, answer))
        ranks["vectors"].append(_rank(shelf, "", packed, answer))
        ranks["fused"].append(_rank(shelf, question, packed, answer))
    return ranks


def _show(
    capsys: pytest.CaptureFixture[str], over: str, ranks: Mapping[str, Sequence[int]]
) -> None:
    with capsys.disabled():
        print(f"\nrecall over {over}")
        for way, found in ranks.items():
            hits = "  ".join(f"hit@{k} {_hit(found, k):.3f}" for k in (1, 3, 5, 10))
            print(f"  {way:<8}{hits}")


def _rank(shelf: Shelf, question: str, vector: bytes | None, answer: str) -> int:
    hits = shelf.search(question, vector, most=50, now=0.0)
    keys = [hit.fact.attribute.replace("-", "_") for hit in hits]
    return keys.index(answer) if answer in keys else len(shelf.facts)


def _hit(ranks: Sequence[int], k: int) -> float:
    return sum(rank < k for rank in ranks) / len(ranks)


def test_the_embedder_is_shared_by_loops(embedder: SharedEmbedder) -> None:
    (vector,) = asyncio.run(_one(embedder))
    assert len(vector) == 384
    assert sum(value * value for value in vector) == pytest.approx(1, abs=1e-3)


async def _one(embedder: SharedEmbedder) -> list[list[float]]:
    return [list(vector) for vector in await embedder.embed(["one"])]
