"""Objects instead of text: their shape is checked, what is wrong goes back, and halves can be read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator
from tests.agent.scenes import Say, run, scene

from crucible.agent.messages import UserMessage
from crucible.agent.models.base import Profile
from crucible.agent.structured import read_object, read_partial, shape_of
from crucible.errors import BadSetting

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Person(BaseModel):
    name: str
    age: int

    @field_validator("name")
    @classmethod
    def _is_capital(cls, value: str) -> str:
        if not value[:1].isupper():
            raise ValueError("names begin with a capital")
        return value


def test_faults_name_path_what_and_got() -> None:
    shape = shape_of({"type": "array", "items": PERSON})
    (fault,) = shape.faults([{"name": "Ana", "age": 1}, {"name": "Bo", "age": "x"}])
    assert (fault.path, fault.got) == ("[1].age", '"x"')
    assert "integer" in fault.what


def test_a_pydantic_model_brings_its_own_validators() -> None:
    shape = shape_of(Person)
    assert shape.faults({"name": "Ana", "age": 3}) == ()
    (fault,) = shape.faults({"name": "ana", "age": 3})
    assert fault.path == "name"
    assert "capital" in fault.what


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 3},
        {"pattern": "("},
        {"type": "string", "x": "y" * 300_000},
    ],
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        shape_of(schema)


def test_a_reference_to_elsewhere_is_refused_and_never_fetched() -> None:
    shape = shape_of({"$ref": "http://127.0.0.1:1/schema.json"})
    with pytest.raises(BadSetting, match="refers"):
        shape.faults({})


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', 'Here:\n```json\n{"a": 1}\n```\nDone.', 'It is {"a": 1}.', '  \n{"a": 1}\n'],
)
def test_an_object_is_found_in_what_is_around_it(text: str) -> None:
    assert read_object(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "no", "{", '{"a": NaN}', "[" * 100_000])
def test_what_is_no_json_says_why(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_object(text)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), _VALUES, max_size=4), st.data())
def test_every_beginning_of_an_object_can_be_read(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text)))
    partial = read_partial(text[:cut])
    assert partial is None or set(partial) <= set(value) or cut < len(text)
    assert read_partial(text) == value


@given(st.text())
def test_reading_anything_never_breaks(text: str) -> None:
    read_partial(text)
    with contextlib.suppress(ValueError):
        read_object(text)


def test_a_wrong_object_goes_back_and_comes_again(tmp_path: Path) -> None:
    lines = (
        Say(text='{"name": "Ana"}'),
        Say(text='{"name": "Ana", "age": -1}'),
        Say(text='```json\n{"name": "Ana", "age": 30}\n```'),
    )

    async def play() -> None:
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            answer = await stage.engine.generate_object(session.id, "tell me who", PERSON)
            assert (answer.end, answer.value) == ("done", {"name": "Ana", "age": 30})
            told = list(await stage.engine.history(session.id))
            assert isinstance(told[2], UserMessage)
            assert "'age' is a required property" in told[2].text
            assert isinstance(told[4], UserMessage)
            assert "age: -1 is less than the minimum" in told[4].text
            assert "JSON Schema" in stage.model.asked[0].system

    run(play())


def test_after_so_many_repairs_the_turn_fails(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, *[Say(text="no JSON at all")] * 5) as stage:
            session = await stage.session()
            answer = await stage.engine.generate_object(session.id, "who?", Person, max_repairs=1)
            assert (answer.end, answer.value) == ("failed", None)
            assert len(stage.model.asked) == 2

    run(play())


def test_the_object_grows_while_it_comes(tmp_path: Path) -> None:
    profile = Profile(context_tokens=9000, output_tokens=900, takes_schema=True)

    async def play() -> None:
        async with scene(
            tmp_path, Say(text='{"name": "Ana Bo", "age": 3}'), profile=profile
        ) as stage:
            session = await stage.session()
            seen = [
                event.data
                async for event in stage.engine.stream_object(session.id, "who?", PERSON)
                if event.kind == "object"
            ]
            assert seen[-1] == {"value": {"name": "Ana Bo", "age": 3}, "whole": True}
            assert {"value": {"name": "Ana"}, "whole": False} in seen
            assert stage.model.asked[0].schema is not None
            assert "JSON Schema" not in stage.model.asked[0].system

    run(play())
