"""What a model sends, taken or refused in words that it can use."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.tools.base import Tool
from crucible.agent.tools.builtin import builtin_tools
from crucible.agent.tools.calling import MOST_CHARACTERS, find_tool, parse_arguments
from crucible.errors import BadToolCall

TOOLS = asyncio.run(builtin_tools().tools())

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def tool(name: str) -> Tool:
    return find_tool(name, TOOLS)


def why(name: str, **arguments: Any) -> str:
    with pytest.raises(BadToolCall) as caught:
        tool(name).use(arguments)
    return caught.value.message


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_every_object_is_taken_as_it_is(value: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(value)) == value


@given(st.text())
def test_any_text_is_an_object_or_is_refused(text: str) -> None:
    told = ""
    try:
        assert isinstance(parse_arguments(text), dict)
    except BadToolCall as error:
        told = error.message
    assert len(told) < 1000


@pytest.mark.parametrize(
    "text, told",
    [
        ("[1]", "not a list"),
        ('"x"', "not text"),
        ("null", "not null"),
        ('{"a": 1', "no JSON"),
        ("{'a': 1}", "no JSON"),
        ('{"a": 1} and so on', "more text follows: 'and so on'"),
        ('{"a": 1}{"a": 1}', "more text follows"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"b": {"a": 1, "a": 2}}', "'a' twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": ' + "9" * 5000 + "}", "no JSON"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "nested deeper"),
        ('{"a": ' + "[" * 200_000, "nested deeper"),
        ('{"a": "' + "x" * MOST_CHARACTERS + '"}', "characters"),
    ],
)
def test_what_is_no_object_is_refused_and_why_is_told(text: str, told: str) -> None:
    with pytest.raises(BadToolCall) as caught:
        parse_arguments(text)
    assert told in caught.value.message


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_a_call_without_arguments_has_none(text: str) -> None:
    assert parse_arguments(text) == {}


def test_an_unknown_tool_is_told_which_there_are() -> None:
    with pytest.raises(BadToolCall) as caught:
        tool("bsh")
    assert "Did you mean `bash`?" in caught.value.message
    assert "publish" in caught.value.message
    with pytest.raises(BadToolCall, match="no tool"):
        tool("\x1b[31m" * 1000)


def test_wrong_arguments_are_told_with_what_is_right() -> None:
    assert "needs `command`" in why("bash")
    assert "Did you mean `command`?" in why("bash", comand="ls")
    assert "must be text, but a number came: 5" in why("bash", command=5)
    assert "must be a number, but text came: '10'" in why("bash", command="ls", timeout_s="10")
    assert "from 0.1 to 3600" in why("bash", command="ls", timeout_s=1e9)
    assert "a whole number" in why("read", path="a", offset=1.5)
    assert "a whole number" in why("read", path="a", offset=True)
    assert "one of content, files_with_matches, count" in why("grep", pattern="a", output_mode="x")
    assert "`old_string` and `new_string`, or `edits`" in why("edit", path="a")
    assert "not both" in why("edit", path="a", old_string="a", new_string="b", edits=[
        {"old_string": "a", "new_string": "b"}
    ])  # fmt: skip
    assert "edit.edits` needs `new_string`" in why("edit", path="a", edits=[{"old_string": "a"}])
    assert "list of objects" in why("edit", path="a", edits=["a"])
    assert "is empty" in why("edit", path="a", edits=[])


def test_a_null_is_an_argument_left_out() -> None:
    assert tool("bash").use({"command": "ls", "timeout_s": None}).subject == "ls"
    assert "needs `command`" in why("bash", command=None)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "x" * 5000, "~/x", "~"])
def test_a_path_that_cannot_be_is_refused(path: str) -> None:
    for name in ("read", "ls", "publish"):
        assert "`path`" in why(name, path=path)


@pytest.mark.parametrize("command", ["", " \n", "a\0b", "\ud800", "é" * 20_000])
def test_a_command_that_cannot_be_is_refused(command: str) -> None:
    assert "`command`" in why("bash", command=command)


def test_hostile_names_stay_short_and_harmless_in_what_is_told() -> None:
    told = why("bash", **{"\x1b[31m\n" * 5000: 1})
    assert len(told) < 400
    assert told.isprintable()


@given(st.dictionaries(st.text() | st.sampled_from(["path", "command", "pattern"]), JSON))
def test_every_tool_takes_or_refuses_any_object(arguments: dict[str, Any]) -> None:
    for one in TOOLS:
        try:
            use = one.use(arguments)
        except BadToolCall:
            continue
        assert use.tool == one.spec.name


def test_the_policy_sees_plain_paths_and_code() -> None:
    assert tool("read").use({"path": "a/../../etc//passwd"}).subject == "/etc/passwd"
    assert tool("ls").use({}).subject == "/workspace"
    assert tool("glob").use({"pattern": "src/../**/*.py"}).subject == "/workspace/**/*.py"
    publish = tool("publish").use({"path": "//x/./y"})
    assert (publish.subject, publish.reach) == ("/x/y", "outside")
    bash = tool("bash").use({"command": "rm -rf /"})
    assert bash.code is not None
    assert (bash.subject, bash.code.text, bash.code.language) == ("rm -rf /", "rm -rf /", "shell")
    assert bash.reach == "sandbox"


@pytest.mark.parametrize(
    "path, content, language",
    [
        ("a.py", "x", "python"),
        ("A.SH", "x", "shell"),
        ("b.mjs", "x", "javascript"),
        ("c.ts", "x", "typescript"),
        ("run", "#!/usr/bin/env python3\n", "python"),
        ("run", "#!/bin/bash\n", "shell"),
        ("run", "#!/usr/bin/node\n", "javascript"),
        ("a.txt", "x", None),
        ("py", "x", None),
    ],
)
def test_what_would_be_run_is_code(path: str, content: str, language: str | None) -> None:
    written = tool("write").use({"path": path, "content": content})
    edited = tool("edit").use({"path": path, "old_string": "old", "new_string": content})
    for use in (written, edited):
        assert (use.code.language if use.code else None) == language


def test_each_tool_describes_itself_to_the_model() -> None:
    names = [one.spec.name for one in TOOLS]
    assert names == ["bash", "read", "write", "edit", "grep", "glob", "ls", "python", "publish"]
    for one in TOOLS:
        schema = one.spec.parameters
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(value["description"] for value in schema["properties"].values())
        json.dumps(schema)
