"""One text for each value, and no other text is taken for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.ledger.canonical import MAX_WHOLE, NotCanonical, canonical, parse

KEYS = st.text(st.characters(max_codepoint=127), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_WHOLE, MAX_WHOLE)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    try:
        data = canonical(value)
    except NotCanonical:
        assert str(value).count("[") + str(value).count("{") > 8
        return
    assert parse(data) == value == json.loads(data)


@given(VALUES, st.integers(0, 200), st.integers(0, 255))
def test_another_text_is_another_value(value: object, place: int, byte: int) -> None:
    try:
        data = bytearray(canonical(value))
    except NotCanonical:
        return
    before = bytes(data)
    data[place % len(data)] = byte
    try:
        found = parse(bytes(data))
    except NotCanonical:
        return
    assert bytes(data) == before or _typed(found) != _typed(value)


def _typed(value: object) -> str:
    """True is equal to 1 in Python, and not in JSON."""
    return repr(value)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', '{"b":1,"a":1}', '{"a":1,"a":1}', "1.0", "1e1", "-0", "NaN", '"\\u0061"', '"\\/"',
     "\ufeff1", "[1,]", "", "[" * 5000, "9007199254740993", '{"é":1}', '"\\ud800"', " 1", "1\n"],
)  # fmt: skip
def test_a_text_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(NotCanonical):
        parse(text)


@pytest.mark.parametrize("value", [1.5, b"a", {1: 2}, (1,), {"a": {1}}, float("nan"), "\udfff"])
def test_what_has_no_one_form_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical(value)


def test_characters_are_escaped_as_rfc_8785_has_it() -> None:
    """Its own example of a text, section 3.2.2.2."""
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/"
    assert canonical(text) == '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'.encode()
