"""Conversations as they are kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Picture,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    from_json,
    to_json,
)
from crucible.errors import StateDamaged

_TEXT = st.text(max_size=20)
_PICTURES = st.lists(st.builds(Picture, media_type=_TEXT, blob=_TEXT), max_size=2).map(tuple)
_PARTS = st.one_of(
    st.builds(Text, text=_TEXT),
    st.builds(Thinking, text=_TEXT, carried=st.dictionaries(_TEXT, _TEXT, max_size=2)),
    st.builds(ToolCall, id=_TEXT, name=_TEXT, arguments=_TEXT),
)
_RESULTS = st.builds(
    ToolResult, call_id=_TEXT, name=_TEXT, text=_TEXT, is_error=st.booleans(), pictures=_PICTURES
)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, text=_TEXT, pictures=_PICTURES, is_pinned=st.booleans()),
    st.builds(AssistantMessage, parts=st.lists(_PARTS, max_size=3).map(tuple), model=_TEXT),
    st.builds(ToolMessage, results=st.lists(_RESULTS, max_size=3).map(tuple)),
    st.builds(Summary, text=_TEXT, replaced=st.integers(0, 1000)),
)


@given(_MESSAGES)
def test_a_kept_message_is_read_as_it_was(message: Message) -> None:
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


@pytest.mark.parametrize(
    "damaged",
    [None, [], {}, {"role": "judge"}, {"role": "user"}, {"role": "assistant", "parts": [{}]},
     {"role": "user", "text": 1, "pictures": [], "pinned": False}],
)  # fmt: skip
def test_what_was_never_a_message_is_refused(damaged: object) -> None:
    with pytest.raises(StateDamaged):
        from_json(damaged)
