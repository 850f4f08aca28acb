"""Conversations as they are kept: in SQLite, and in a PostgreSQL that is really there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import run

from crucible.conversations.conversations import UNDO_S, Conversations
from crucible.conversations.facts import Position
from crucible.conversations.folding import folded, kept_text
from crucible.conversations.searching import around
from crucible.conversations.titles import LONGEST_TITLE, check_title, title_of
from crucible.errors import BadRequest, ConversationMissing
from crucible.store.database import Database


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(database: Database, clock: Clock, tmp_path: Path) -> Conversations:
    return Conversations(database, uploads=tmp_path / "uploads", now=clock)


async def ids(kept: Conversations, user: str = "ann", query: str = "") -> list[str]:
    found = await kept.page(user, query=query, limit=50)
    return [one.conversation.id for one in found]


def test_they_are_listed_pinned_first_then_newest_and_page_by_page(kept: Conversations) -> None:
    async def play() -> None:
        for name in ("a", "b", "c", "d"):
            await kept.create(name, "ann", prompt=f"prompt of {name}")
        await kept.create("z", "bob")
        await kept.change("b", "ann", is_pinned=True)
        await kept.prompted("a", "again")
        assert await ids(kept) == ["b", "a", "d", "c"]
        seen, after = list[str](), None
        while page := await kept.page("ann", after=after, limit=1):
            one = page[0].conversation
            seen.append(one.id)
            after = Position(is_pinned=one.is_pinned, updated_at=one.updated_at, id=one.id)
        assert seen == ["b", "a", "d", "c"]

    run(play())


def test_titles_and_texts_are_searched_as_they_stand_there(kept: Conversations) -> None:
    async def play() -> None:
        await kept.create("a", "ann", prompt="Plot the prices")
        await kept.create("b", "ann", prompt="Something else")
        await kept.create("other", "bob", prompt="Plot the prices")
        await kept.ended("b", 1, said="50% of a_b in ÉTÉ \0 \ud800", answer="x" * 300, model="m")
        assert await ids(kept, query="PLOT the") == ["a"]
        assert await ids(kept, query="50%") == ["b"]
        assert await ids(kept, query="5%") == []
        assert await ids(kept, query="a_b") == ["b"]
        assert await ids(kept, query="axb") == []
        assert await ids(kept, query="été") == ["b"]
        assert await ids(kept, query="\\") == []
        assert await ids(kept, query="' OR 1=1 --") == []
        (found,) = await kept.page("ann", query="été", limit=9)
        assert "ÉTÉ" in found.snippet
        assert found.conversation.model == "m"

    run(play())


def test_what_was_taken_back_is_not_found(kept: Conversations) -> None:
    async def play() -> None:
        await kept.create("a", "ann", title="t")
        for turn, word in ((1, "apple"), (2, "pear"), (3, "plum")):
            await kept.ended("a", turn, said=word, answer=f"{word} pie", model="")
        await kept.retracted("a", 2)
        assert await ids(kept, query="apple") == ["a"]
        assert await ids(kept, query="pear") == []
        assert await ids(kept, query="plum") == []
        await kept.ended("a", 1, said="cherry", answer="", model="")
        assert await ids(kept, query="apple") == []

    run(play())


def test_one_that_was_thrown_away_can_be_had_back_for_a_while(
    kept: Conversations, clock: Clock
) -> None:
    async def play() -> None:
        await kept.create("a", "ann", title="t")
        await kept.throw_away("a", "ann")
        assert await ids(kept) == []
        with pytest.raises(ConversationMissing):
            await kept.get("a", "ann")
        with pytest.raises(ConversationMissing):
            await kept.throw_away("a", "ann")
        with pytest.raises(ConversationMissing):
            await kept.restore("a", "bob")
        assert await kept.due() == []
        assert (await kept.restore("a", "ann")).deleted_at is None
        assert await ids(kept) == ["a"]
        await kept.throw_away("a", "ann")
        clock.at += UNDO_S
        with pytest.raises(ConversationMissing):
            await kept.restore("a", "ann")
        assert [one.id for one in await kept.due()] == ["a"]
        await kept.gone("a")
        assert await kept.due() == []
        assert await kept.ids() == []

    run(play())


def test_a_turn_of_a_session_that_is_no_conversation_leaves_nothing(kept: Conversations) -> None:
    async def play() -> None:
        await kept.ended("ses-1", 1, said="a", answer="b", model="")
        await kept.retracted("ses-1", 1)
        await kept.gone("ses-1")
        assert await kept.ids() == []

    run(play())


@pytest.mark.parametrize(
    "prompt, title",
    [
        ("Plot this\n\nfile", "Plot this file"),
        ("", ""),
        ("‮evil‬", "evil"),
        ("a\0b\x1b[31m", "ab[31m"),
        ("word " * 40, "word " * 11 + "word…"),
        ("x" * 100, "x" * 60 + "…"),
    ],
)
def test_a_title_is_the_first_words_of_the_first_prompt(prompt: str, title: str) -> None:
    assert title_of(prompt) == title


@pytest.mark.parametrize("text", ["", " \n", "‮", "x" * (LONGEST_TITLE + 1)])
def test_what_is_no_title_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        check_title(text)


@given(st.text())
def test_a_title_is_short_and_on_one_line(prompt: str) -> None:
    title = title_of(prompt)
    assert len(title) <= 61
    assert "\n" not in title
    title.encode()


@given(st.text(), st.text(min_size=1))
def test_folding_moves_no_character(text: str, words: str) -> None:
    assert len(folded(text)) == len(kept_text(text))
    assert folded(folded(text)) == folded(text)
    assert len(around(text + words, folded(words))) <= 170
