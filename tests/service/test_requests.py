"""What clients ask for, field by field: taken when it makes sense, refused in words otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import Refused
from crucible.images.catalog import Image
from crucible.sandbox.service.requests import (
    field,
    name_field,
    parse_command,
    parse_spec,
    path_field,
    whole,
)
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

IMAGE = Image(
    name="base", digest="d", root=Path("/r"), size_bytes=1, packages=Path("/p"), user="user",
    workdir="/workspace", environment=(("FROM", "image"), ("LANG", "C")), recipe="",
)  # fmt: skip

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800\0"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_COMMAND_FIELDS = (
    "argv", "environment", "workdir", "user", "terminal", "wants_input", "rows", "columns", "timeout_s"
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(_COMMAND_FIELDS), _JSON))
def test_a_command_is_parsed_or_refused(values: dict[str, Any]) -> None:
    try:
        command = parse_command(values, SandboxSpec(), IMAGE)
    except Refused:
        return
    assert isinstance(command, Command)
    assert command.argv


@given(st.dictionaries(st.sampled_from(tuple(SandboxSpec.__dataclass_fields__)), _JSON))
def test_a_spec_is_parsed_or_refused(values: dict[str, Any]) -> None:
    try:
        spec = parse_spec(values)
    except Refused:
        return
    assert isinstance(spec, SandboxSpec)


@given(_JSON)
def test_a_name_and_a_path_are_text_or_refused(value: Any) -> None:
    for parse in (name_field, path_field):
        request = {"name": value, "path": value}
        try:
            parse(request)
        except Refused:
            continue
        assert isinstance(value, str)


def test_the_request_comes_before_the_sandbox_and_that_before_the_image() -> None:
    spec = SandboxSpec(environment={"LANG": "sandbox", "A": "1"}, workdir="/spec", user="other")
    command = parse_command({"argv": ["x"], "environment": {"A": "2"}}, spec, IMAGE)
    assert command.environment == {b"FROM": b"image", b"LANG": b"sandbox", b"A": b"2"}
    assert (command.workdir, command.user) == (b"/spec", "other")
    asked = {"argv": ["x"], "workdir": "/asked", "user": "root"}
    command = parse_command(asked, spec, IMAGE)
    assert (command.workdir, command.user) == (b"/asked", "root")


def test_bytes_that_are_no_text_reach_the_command() -> None:
    command = parse_command({"argv": ["\udcff"]}, SandboxSpec(), IMAGE)
    assert command.argv == [b"\xff"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"argv": []},
        {"argv": "ls"},
        {"argv": ["a\0b"]},
        {"argv": ["\ud800"]},
        {"argv": ["x" * 70_000]},
        {"argv": ["x"] * 5000},
        {"argv": ["x"], "environment": {"A=B": "1"}},
        {"argv": ["x"], "environment": {"": "1"}},
        {"argv": ["x"], "environment": {"A": 1}},
        {"argv": ["x"], "environment": []},
        {"argv": ["x"], "timeout_s": float("nan")},
        {"argv": ["x"], "timeout_s": -1},
        {"argv": ["x"], "timeout_s": "soon"},
        {"argv": ["x"], "timeout_s": 1e12},
        {"argv": ["x"], "rows": -1},
        {"argv": ["x"], "columns": 1 << 20},
        {"argv": ["x"], "workdir": 5},
    ],
)
def test_a_command_that_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        parse_command(values, SandboxSpec(), IMAGE)


@pytest.mark.parametrize(
    "values",
    [
        {"unknown": 1},
        {"cpus": True},
        {"cpus": "2"},
        {"memory_mib": 512.0},
        {"memory_mib": 1},
        {"image": None},
        {"environment": {"A": 1}},
        {"min_isolation": "perfect"},
        {"network": "some"},
        {"network": True},
        {"allow": "host"},
        {"allow": ["host", 1]},
        {"deny": ["host"] * 1001},
        {"read_only": "yes"},
        {"profile": "nosuch"},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        parse_spec(values)


@pytest.mark.parametrize("value", [True, 0, 11, "5", None, 5.0])
def test_a_whole_number_is_one_within_its_bounds(value: object) -> None:
    with pytest.raises(Refused):
        whole(value, "number", 1, 10)


def test_a_truth_is_no_number() -> None:
    with pytest.raises(Refused):
        field({"stream": True}, "stream", int)
