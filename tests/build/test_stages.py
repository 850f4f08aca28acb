"""Stages: which are built, and what they begin from."""

from __future__ import annotations

import pytest

from crucible.build.dockerfile import parse_dockerfile
from crucible.build.stages import Plan, plan
from crucible.errors import BadSetting, BuildFileInvalid

THREE = """
ARG VERSION=1
FROM base:$VERSION AS one
FROM other AS two
FROM one
COPY --from=two /a /b
"""


def planned(text: str, target: str = "", **given: str) -> Plan:
    return plan(parse_dockerfile(text.encode()), given=given, target=target)


def test_the_last_stage_is_built_with_all_that_it_needs() -> None:
    found = planned(THREE)
    assert [stage.image for stage in found.stages] == ["base:1", "other", "one"]
    assert found.stages[2].base_stage == 0
    assert found.stages[2].copied_stage("TWO") == 1
    assert found.count == 4


def test_a_target_leaves_out_what_it_does_not_need() -> None:
    assert [stage.name for stage in planned(THREE, "two").stages] == ["two"]
    assert [stage.name for stage in planned(THREE, "0").stages] == ["one"]
    assert [stage.number for stage in planned(THREE, "2").stages] == [0, 1, 2]


def test_a_stage_can_only_be_named_after_it_was_begun() -> None:
    found = planned("FROM two AS one\nFROM one AS two\n")
    assert found.stages[0].base_stage is None
    assert found.stages[1].base_stage == 0


def test_arguments_before_from_are_for_from() -> None:
    assert planned(THREE, "one", VERSION="7").stages[0].image == "base:7"


@pytest.mark.parametrize(
    "text, why",
    [
        ("FROM a AS x\nFROM b AS x\n", "another stage 'x'"),
        ("FROM $NONE\n", "FROM names no image"),
        ("FROM ${X\n", "is not closed"),
    ],
)
def test_stages_that_cannot_be_are_refused(text: str, why: str) -> None:
    with pytest.raises(BuildFileInvalid, match=why):
        planned(text)


def test_targets_and_arguments_that_are_not_there_are_refused_with_a_suggestion() -> None:
    with pytest.raises(BadSetting) as refusal:
        planned(THREE, "twoo")
    assert refusal.value.hint == "Did you mean `two`?"
    with pytest.raises(BadSetting) as refusal:
        planned(THREE, VERSOIN="2")
    assert refusal.value.hint == "Did you mean `VERSION`?"


def test_a_stage_or_argument_that_is_not_there_is_told_those_that_are() -> None:
    with pytest.raises(BadSetting, match="no stage 'zzz'") as unknown:
        planned(THREE, "zzz")
    assert unknown.value.hint == "One of: one, two"
    with pytest.raises(BadSetting, match="no ARG 'OTHER'") as unknown:
        planned(THREE, OTHER="1")
    assert unknown.value.hint == "One of: VERSION"
    with pytest.raises(BadSetting) as unknown:
        planned("FROM base\n", "zzz")
    assert unknown.value.hint == "None has a name"
