"""What a long conversation was cut down to is kept for its user alone, without secrets and within bounds."""

from __future__ import annotations

import pytest

from crucible.memory.memory import Memory
from crucible.memory.summaries import LONGEST_SUMMARY, keepable_summary

ANA = "ana"


async def test_the_next_takes_the_place_of_the_one_before(memory: Memory) -> None:
    await memory.keep_summary(ANA, "s1", covers=4, text="the first four")
    await memory.keep_summary(ANA, "s1", covers=8, text="the first eight")
    await memory.keep_summary(ANA, "s2", covers=2, text="another")
    found = await memory.summary(ANA, "s1")
    assert found is not None
    assert (found.covers, found.text) == (8, "the first eight")
    assert sorted(one.session for one in await memory.summaries(ANA)) == ["s1", "s2"]


async def test_it_is_of_one_user_and_goes_with_its_conversation(memory: Memory) -> None:
    await memory.keep_summary(ANA, "s1", covers=4, text="boats")
    assert await memory.summary("eve", "s1") is None
    await memory.drop_summary("eve", "s1")
    assert await memory.summary(ANA, "s1") is not None
    await memory.drop_summary(ANA, "s1")
    assert await memory.summary(ANA, "s1") is None


async def test_nothing_is_kept_while_memory_is_off(memory: Memory) -> None:
    await memory.set_enabled(ANA, False, session="s1")
    await memory.keep_summary(ANA, "s1", covers=4, text="boats")
    assert await memory.summaries(ANA) == []


async def test_it_goes_with_a_fact_that_it_tells_of(memory: Memory) -> None:
    change = await memory.remember(ANA, "I live in Porto")
    await memory.keep_summary(ANA, "s1", covers=4, text="They live in Porto.")
    await memory.keep_summary(ANA, "s2", covers=4, text="It was about boats.")
    await memory.forget(ANA, change.fact.id)
    assert [one.session for one in await memory.summaries(ANA)] == ["s2"]
    await memory.keep_summary(ANA, "s1", covers=6, text="About trams.")
    assert len(await memory.summaries(ANA)) == 2


@pytest.mark.parametrize(
    "written, kept",
    [
        (
            "Works on boats. Their password is hunter2. Likes trams.",
            "Works on boats. [left out] Likes trams.",
        ),
        ("  a\x1b[31mb\n\n c ", "a [31mb\n\nc"),
        ("", ""),
    ],
)
def test_neither_secrets_nor_what_a_terminal_obeys_is_kept(written: str, kept: str) -> None:
    assert keepable_summary(written) == kept


def test_it_has_an_end() -> None:
    assert len(keepable_summary("word " * 100_000)) <= LONGEST_SUMMARY
