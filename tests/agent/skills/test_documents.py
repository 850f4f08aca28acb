"""SKILL.md and the tools beside it, read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.skills.declared import Binary, Http, Script, parse_tools
from crucible.agent.skills.document import parse_document
from crucible.errors import BadSkill

_GOOD = """\
---
name: pdf-forms
description: Fills in PDF forms.
license: MIT
compatibility: Needs python3.
metadata:
  author: somebody
  version: 1.2
allowed-tools: bash read
---

# Forms

Do this.
"""


def test_the_open_form_is_read_whole() -> None:
    found = parse_document(_GOOD)
    assert (found.name, found.description, found.license) == (
        "pdf-forms",
        "Fills in PDF forms.",
        "MIT",
    )
    assert found.metadata == {"author": "somebody", "version": "1.2"}
    assert found.allowed_tools == ("bash", "read")
    assert found.body == "# Forms\n\nDo this."


@pytest.mark.parametrize(
    "head, why",
    [
        ("", "needs|not a table|name"),
        ("name: Pdf-Forms\ndescription: x", "cannot have the name"),
        ("name: a--b\ndescription: x", "cannot have the name"),
        ("name: ../up\ndescription: x", "cannot have the name"),
        (f"name: {'a' * 65}\ndescription: x", "cannot have the name"),
        ("name: a", "needs a 'description'"),
        (f"name: a\ndescription: {'x' * 1025}", "1024 are allowed"),
        ("name: a\ndescription: x\ncompatibility: " + "y" * 501, "500 are allowed"),
        ("name: a\ndescription: x\ntools: []", "no use for 'tools'"),
        ("name: a\ndescription: [x]", "no text"),
        ("name: a\ndescription: x\nmetadata: {a: {b: c}}", "no table of texts"),
        ("- a\n- b", "not a table"),
        ("name: a\ndescription: x\nmetadata: &a {b: *a}", "alias"),
        ("a: &x [1,2]\nb: *x", "alias"),
        ("name: !!python/object/apply:os.system [ls]\ndescription: x", "not YAML"),
        ("name: 'a\ndescription: x", "not YAML"),
        ("name: a\nname: b\ndescription: x", "'name' twice"),
        ("name: a\ndescription: x\nmetadata: {b: c, b: d}", "'b' twice"),
        ("name: a\ndescription: x\nmetadata: {<<: {b: c}}", "merged"),
        (f"name: a\ndescription: x\nmetadata: {{b: 0x{'f' * 9000}}}", "too large a number"),
        (f"name: a\ndescription: {'[' * 30_000}", "deeper than 8"),
    ],
)
def test_what_is_not_the_form_is_refused_with_a_reason(head: str, why: str) -> None:
    with pytest.raises(BadSkill, match=why):
        parse_document(f"---\n{head}\n---\nbody")


@pytest.mark.parametrize("text", ["", "# No head", "---\nname: a\n", "x" * (300 << 10)])
def test_a_document_without_its_head_is_refused(text: str) -> None:
    with pytest.raises(BadSkill):
        parse_document(text)


@given(st.text(max_size=200))
def test_nothing_written_there_does_more_than_be_refused(text: str) -> None:
    for document in (text, f"---\n{text}\n---\n"):
        try:
            parse_document(document)
        except BadSkill:
            continue


def _tool(**more: Any) -> str:
    return json.dumps([{"name": "t", "description": "d", **more}])


def test_a_tool_cannot_say_one_thing_twice() -> None:
    with pytest.raises(BadSkill, match="twice"):
        parse_tools('[{"name": "t", "description": "d", "script": {"path": "a", "path": "b"}}]')


def test_the_three_kinds_of_tools_are_read() -> None:
    (script,) = parse_tools(_tool(script={"path": "scripts/a.py", "runs": "python"}))
    (http,) = parse_tools(_tool(http={"method": "POST", "url": "https://api.example/{id}/x"}))
    (binary,) = parse_tools(
        _tool(binary={"amd64": {"url": "https://x.example/p", "sha256": "0" * 64}})
    )
    assert script.backend == Script(path="scripts/a.py", runs="python")
    assert isinstance(http.backend, Http)
    assert isinstance(binary.backend, Binary)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"script": {"path": "/etc/passwd"}},
        {"script": {"path": "../../x"}},
        {"script": {"path": "a/../../x"}},
        {"script": {"path": "a\\b"}},
        {"script": {"path": ""}},
        {"script": {"path": "a", "runs": "sudo"}},
        {"script": {"path": "a"}, "http": {"url": "https://x.example/"}},
        {"http": {"url": "file:///etc/passwd"}},
        {"http": {"url": "https://{host}/x"}},
        {"http": {"url": "https://good.example@evil.example/"}},
        {"http": {"url": "https://x.example/", "headers": {"A": "b\r\nC: d"}}},
        {"http": {"url": "https://x.example/", "headers": {"A:B": "c"}}},
        {"http": {"url": "https://x.example/", "method": "TRACE"}},
        {"binary": {"amd64": {"url": "https://x.example/p"}}},
        {"binary": {"amd64": {"url": "https://x.example/p", "sha256": "xyz"}}},
        {"binary": {"amd64": {"url": "ftp://x.example/p", "sha256": "0" * 64}}},
        {"binary": {}},
        {"script": {"path": "a"}, "timeout_s": -1},
        {"script": {"path": "a"}, "timeout_s": 1e9},
        {"script": {"path": "a"}, "parameters": {"type": "array"}},
        {"script": {"path": "a"}, "parameters": {"type": "object", "properties": 7}},
        {"script": {"path": "a"}, "surprise": 1},
    ],
)
def test_what_is_no_tool_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(BadSkill):
        parse_tools(_tool(**more))


@given(st.text(max_size=200) | st.builds(json.dumps, st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)))  # fmt: skip
def test_no_file_of_tools_does_more_than_be_refused(text: str) -> None:
    try:
        parse_tools(text)
    except BadSkill:
        return
