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

from crucible.agent import schemas
from crucible.agent.messages import UserMessage
from crucible.agent.models.base import Profile
from crucible.agent.structured import read_object, read_partial, shape_of
from crucible.errors import BadSetting, ModelOverloaded, NothingToResume

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


@pytest.mark.parametrize("name", ["http://127.0.0.1:1/schema.json", "file:///etc/passwd", "a"])
def test_a_reference_to_elsewhere_is_refused_before_a_model_is_paid(name: str) -> None:
    with pytest.raises(BadSetting, match="refers"):
        shape_of({"properties": {"a": {"items": {"$ref": name}}}})


def test_a_reference_to_what_is_not_there_is_refused_and_never_fetched() -> None:
    shape = shape_of({"$id": "http://127.0.0.1:1/", "$ref": "other.json"})
    with pytest.raises(BadSetting, match="refers"):
        shape.faults({})


def _laughs() -> dict[str, Any]:
    """Each of them asks twice for the one before."""
    parts: dict[str, Any] = {"a0": {"type": "integer"}}
    for n in range(1, 64):
        parts[f"a{n}"] = {"allOf": [{"$ref": f"#/$defs/a{n - 1}"}] * 2}
    return {"$defs": parts, "$ref": "#/$defs/a63"}


@pytest.mark.parametrize("schema", [{"$ref": "#"}, _laughs()])
def test_a_schema_without_an_end_is_given_up(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_MOST_STEPS", 1000)
    with pytest.raises(BadSetting, match=r"without an end|more than 1000 steps"):
        shape_of(schema).faults(1)


@pytest.mark.parametrize("schema", [
    {"pattern": "^(a+)+$"},
    {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^(a+)+$"}},
])  # fmt: skip
def test_no_pattern_takes_longer_than_its_text(schema: dict[str, Any]) -> None:
    """With the interpreter's own expressions each of these would take longer than the world has stood."""
    evil = "a" * 64 + "!"
    assert shape_of(schema).faults(evil if "type" not in schema else {evil: 1})


def test_many_unlike_things_are_compared_in_one_pass() -> None:
    shape = shape_of({"uniqueItems": True})
    many = [{"a": n} for n in range(20_000)]
    assert shape.faults(many) == ()
    assert shape.faults([1, True, "1", [1], {"1": 1}, None, 1.5]) == ()
    likes: tuple[list[Any], ...] = (
        [1, 1.0],
        [{"a": 1, "b": [True]}, {"b": [True], "a": 1}],
        [[], []],
    )
    assert all(shape.faults(same) for same in likes)


def test_other_properties_are_held_against_what_is_said_of_them() -> None:
    schema = {"properties": {"a": {}}, "patternProperties": {"^x-": {"type": "integer"}}}
    closed = shape_of({**schema, "additionalProperties": False})
    assert closed.faults({"a": 1, "x-b": 2}) == ()
    assert [str(one.path) for one in closed.faults({"x-b": "2"})] == ["x-b"]
    assert "'c'" in closed.faults({"c": 1})[0].what
    typed = shape_of({**schema, "additionalProperties": {"type": "string"}})
    assert [one.path for one in typed.faults({"c": 1, "d": "2"})] == ["c"]


@pytest.mark.parametrize("schema", [
    {"pattern": "(?=a)b"},
    {"patternProperties": {"(a)\\1": {}}},
    {"patternProperties": {"a": {}}, "unevaluatedProperties": False},
])  # fmt: skip
def test_what_no_bounded_check_can_do_is_refused_with_a_hint(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSetting) as refused:
        shape_of(schema)
    assert refused.value.hint


def test_a_value_nested_too_deeply_is_the_models_fault() -> None:
    deep: Any = None
    for _ in range(900):
        deep = {"n": deep}
    shape = shape_of({"type": ["object", "null"], "properties": {"n": {"$ref": "#"}}})
    (fault,) = shape.faults(deep)
    assert "nested too deeply" in fault.what


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


def test_a_long_object_is_told_the_less_often_the_longer_it_is(tmp_path: Path) -> None:
    """Each telling has all there is of it and is kept: with every word, an object of 1 MB would take 100 GB."""
    text = json.dumps({"words": ["word"] * 4000})

    async def play() -> None:
        async with scene(tmp_path, Say(text=text)) as stage:
            session = await stage.session()
            seen = [
                json.dumps(event.data["value"])
                async for event in stage.engine.stream_object(session.id, "who?", {})
                if event.kind == "object"
            ]
            assert len(seen) > 20
            assert sum(map(len, seen)) < 40 * len(text)
            assert len(seen[-2]) > len(text) * 0.9
            assert seen[-1] == text

    run(play())


def test_a_turn_for_an_object_is_resumed_as_one(tmp_path: Path) -> None:
    lines = (
        Say(error=ModelOverloaded("too busy", hint="wait")),
        Say(error=ModelOverloaded("too busy", hint="wait")),
        Say(text='{"name": "Ana"}'),
        Say(text='{"name": "Ana", "age": 3}'),
    )

    async def play() -> None:
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            answer = await stage.engine.generate_object(session.id, "who?", PERSON)
            assert answer.end == "failed"
            assert (await (await stage.engine.resume(session.id)).wait()).end == "failed"
            answer = await (await stage.engine.resume(session.id)).wait()
            assert (answer.end, answer.value) == ("done", {"name": "Ana", "age": 3})
            answer = await stage.engine.generate_object(session.id, "who?", PERSON, max_repairs=0)
            await stage.engine.clear(session.id)
            with pytest.raises(NothingToResume):
                await stage.engine.resume(session.id)

    run(play())
