"""What is done to answers on their way, however they are cut into pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.messages import AssistantMessage, Text, Thinking
from crucible.agent.models.base import (
    Answered,
    ModelEvent,
    ModelRef,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from crucible.agent.models.transform import ThinkTags, find_json, split_message, split_thoughts

_PLAIN = st.text(alphabet="ab </>\n", max_size=12)
_NOISY = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<thinking>", "</thinking>", "<", "</", "<thin", "x", ">"]
    ),
    max_size=12,
).map("".join)


def _cut(text: str, places: list[int]) -> list[str]:
    bounds = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(bounds)]


def _split(pieces: list[str]) -> list[tuple[str, str]]:
    """Kinds and texts, with those of one kind that follow each other joined."""
    tags = ThinkTags()
    found: list[tuple[str, str]] = []
    told = [one for piece in pieces for one in tags.feed(piece)]
    for one in [*told, *tags.end()]:
        kind = type(one).__name__
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + one.text)
        else:
            found.append((kind, one.text))
    return found


@given(text=_NOISY, places=st.lists(st.integers(0, 200), max_size=20))
def test_how_a_text_is_cut_makes_no_difference(text: str, places: list[int]) -> None:
    assert _split(_cut(text, places)) == _split([text])


@given(before=_PLAIN, thought=_PLAIN, after=_PLAIN, places=st.lists(st.integers(0, 99), max_size=9))
def test_what_stands_between_tags_is_a_thought_and_nothing_else_is(
    before: str, thought: str, after: str, places: list[int]
) -> None:
    pieces = _cut(f"{before}<think>{thought}</think>{after}", places)
    found = _split(pieces)
    assert "".join(text for kind, text in found if kind == "ThinkingDelta") == thought
    assert "".join(text for kind, text in found if kind == "TextDelta") == before + after


@given(text=_PLAIN)
def test_a_text_without_tags_is_told_as_it_is(text: str) -> None:
    tags = ThinkTags()
    told = [*tags.feed(text), *tags.end()]
    assert "".join(one.text for one in told) == text
    assert not any(isinstance(one, ThinkingDelta) for one in told)


def test_a_thought_that_never_ends_is_still_one() -> None:
    assert _split(["<think>and then", " and then"]) == [("ThinkingDelta", "and then and then")]


@given(text=_NOISY, places=st.lists(st.integers(0, 200), max_size=20))
def test_the_message_in_the_end_says_what_was_told(text: str, places: list[int]) -> None:
    message = AssistantMessage(parts=(Text(text=text),))
    end = Answered(
        message=message, usage=Usage(), stop="end", model=ModelRef(provider="a", name="b")
    )

    async def tell() -> AsyncIterator[ModelEvent]:
        for piece in _cut(text, places):
            yield TextDelta(text=piece)
        yield end

    async def listen() -> list[ModelEvent]:
        async with aclosing(split_thoughts(tell())) as events:  # type: ignore[type-var]
            return [event async for event in events]

    *told, last = asyncio.run(listen())
    assert isinstance(last, Answered)
    parts = last.message.parts
    assert "".join(one.text for one in told if isinstance(one, TextDelta)) == last.message.text
    thoughts = "".join(part.text for part in parts if isinstance(part, Thinking))
    assert "".join(one.text for one in told if isinstance(one, ThinkingDelta)) == thoughts
    assert split_message(message).parts == parts


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(alphabet='ab"{}[]`\\', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=3), _JSON, max_size=3) | st.lists(_JSON, max_size=3))
def test_json_is_found_in_chatty_text(value: Any) -> None:
    text = json.dumps(value)
    assert find_json(text) == value
    assert find_json(f"Sure! Here it is:\n```json\n{text}\n```\nAnything else?") == value
    assert find_json(f"Of course: {text}. Glad to help!") == value


@pytest.mark.parametrize("text", ["", "no JSON here", "{", "[1, 2", "{not json}", "[" * 100_000])
def test_where_there_is_no_json_none_is_found(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        find_json(text)


def test_a_fence_within_the_json_is_none() -> None:
    assert find_json('Here: {"a": "```[1]"}') == {"a": "```[1]"}


def test_a_bracket_before_the_json_does_no_harm() -> None:
    assert find_json('I {think} so: {"a": [1]}') == {"a": [1]}
