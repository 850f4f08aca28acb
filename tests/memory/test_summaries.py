"""A long conversation's summary covers ever more of it, and never what is pinned."""

from __future__ import annotations

import pytest
from tests.memory.conftest import Answers, Blobs

from crucible.errors import BadAnswer
from crucible.memory.summaries import LONGEST_SUMMARY, Line, Summaries
from crucible.store.database import Database

ANA = "ana"


def _lines(count: int, pinned: int = -1) -> list[Line]:
    return [
        Line(
            role="user" if number % 2 == 0 else "assistant",
            text=f"message {number}",
            is_pinned=number == pinned,
        )
        for number in range(count)
    ]


async def test_it_rolls_on_from_what_it_covers(database: Database) -> None:
    model = Answers({"summary": "the first four"}, {"summary": "the first eight"})
    summaries = Summaries(database, model)
    first = await summaries.roll(ANA, "s1", _lines(6), keep=2)
    assert (first.covers, first.text) == (4, "the first four")
    second = await summaries.roll(ANA, "s1", _lines(10), keep=2)
    assert (second.covers, second.text) == (8, "the first eight")
    assert "the first four" in model.prompts[1]
    assert "message 3" not in model.prompts[1]
    assert "message 4" in model.prompts[1]
    assert await summaries.get(ANA, "s1") == second


async def test_nothing_new_asks_nothing(database: Database) -> None:
    model = Answers({"summary": "all"})
    summaries = Summaries(database, model)
    for _ in range(3):
        await summaries.roll(ANA, "s1", _lines(6), keep=2)
    assert len(model.prompts) == 1


async def test_what_is_pinned_is_not_folded_in(database: Database) -> None:
    model = Answers({"summary": "the rest"})
    await Summaries(database, model).roll(ANA, "s1", _lines(6, pinned=2), keep=0)
    assert "message 2" not in model.prompts[0]
    assert "message 3" in model.prompts[0]


async def test_a_shorter_conversation_is_summarized_anew(database: Database) -> None:
    model = Answers({"summary": "old"}, {"summary": "new"})
    summaries = Summaries(database, model)
    await summaries.roll(ANA, "s1", _lines(10), keep=0)
    rewound = await summaries.roll(ANA, "s1", _lines(4), keep=0)
    assert (rewound.covers, rewound.text) == (4, "new")
    assert "old" not in model.prompts[1]


async def test_secrets_are_neither_shown_nor_kept(database: Database) -> None:
    model = Answers({"summary": "Works on boats. Their password is hunter2. Likes trams."})
    summaries = Summaries(database, model)
    made = await summaries.roll(
        ANA, "s1", [Line(role="user", text="Hello. My password is hunter2.")], keep=0
    )
    assert "hunter2" not in model.prompts[0]
    assert made.text == "Works on boats. [left out] Likes trams."


async def test_much_is_folded_in_parts_and_the_text_is_capped(database: Database) -> None:
    model = Answers({"summary": "word " * 50_000})
    lines = [Line(role="user", text="boats and trams " * 1000) for _ in range(20)]
    made = await Summaries(database, model).roll(ANA, "s1", lines, keep=0)
    assert len(model.prompts) > 1
    assert max(map(len, model.prompts)) < 40_000
    assert len(made.text) <= LONGEST_SUMMARY


async def test_an_answer_without_a_summary_changes_nothing(database: Database) -> None:
    strange: tuple[object, ...] = (None, {}, {"summary": 7}, {"summary": " "}, "text")
    for answer in strange:
        summaries = Summaries(database, Answers(answer))
        with pytest.raises(BadAnswer):
            await summaries.roll(ANA, "s1", _lines(4), keep=0)
        assert await summaries.get(ANA, "s1") is None


async def test_it_is_of_one_user_and_goes_with_its_conversation(
    database: Database, blobs: Blobs
) -> None:
    summaries = Summaries(database, Answers({"summary": "boats"}), recorder=blobs, eraser=blobs)
    await summaries.roll(ANA, "s1", _lines(4), keep=0)
    assert await summaries.get("eve", "s1") is None
    await summaries.delete("eve", "s1")
    assert await summaries.get(ANA, "s1") is not None
    await summaries.delete(ANA, "s1")
    assert await summaries.get(ANA, "s1") is None
    assert list(blobs.directory.iterdir()) == []
