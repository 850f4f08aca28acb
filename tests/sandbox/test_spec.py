"""What users write: sizes, durations, names, variables. Odd values are refused, none crashes."""

from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadName, BadSetting
from crucible.sandbox.spec import (
    LARGEST_TIMEOUT_S,
    MEMORY_TIERS_MIB,
    SandboxSpec,
    check_name,
    memory_tier,
    parse_duration_s,
    parse_environment,
    parse_size_mib,
)

NAME_LETTERS = string.ascii_letters + string.digits + "._-"


@pytest.mark.parametrize(
    "text, mib",
    [("512", 512), ("512M", 512), ("512m", 512), ("512MiB", 512), ("512MB", 512), ("2G", 2048),
     ("2 GiB", 2048), (" 1T ", 1 << 20), ("2048K", 2), ("1023K", 0), ("0", 0), ("999999999", 999_999_999)],
)  # fmt: skip
def test_a_size_is_read_in_mebibytes(text: str, mib: int) -> None:
    assert parse_size_mib(text) == mib


@pytest.mark.parametrize(
    "text",
    ["", " ", "M", "-1", "+1", "1.5G", "1e3", "0x10", "512B", "512iB", "1P", "1 M B", "1234567890",
     "٣M", "1G\n1", "1_000", "inf", "nan"],
)  # fmt: skip
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_size_mib(text)


@pytest.mark.parametrize(
    "text, seconds",
    [("30", 30), ("30s", 30), ("1.5s", 1.5), ("250ms", 0.25), ("10m", 600), ("2h", 7200), ("1d", 86400),
     ("0", None), ("none", None), (" 5 s ", 5), ("30d", 30 * 86400)],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(text: str, seconds: float | None) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "-1", "1.2345s", "0s", "0.0", "31d", "1w", "s", "1h30m", "1e9", "inf", "nan", "1 000", "٣s", "None"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_duration_s(text)


@given(st.text(max_size=40))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with contextlib.suppress(BadSetting):
        assert parse_size_mib(text) >= 0


@given(st.text(max_size=40))
def test_any_text_is_a_duration_within_bounds_or_refused(text: str) -> None:
    with contextlib.suppress(BadSetting):
        seconds = parse_duration_s(text)
        assert seconds is None or 0 < seconds <= LARGEST_TIMEOUT_S


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True))
def test_a_good_name_stays_as_it_is(name: str) -> None:
    assert check_name(name) == name


@given(st.text(max_size=80))
def test_only_names_that_are_safe_as_a_file_name_are_taken(name: str) -> None:
    try:
        check_name(name)
    except BadName:
        return
    assert 0 < len(name) <= 63
    assert set(name) <= set(NAME_LETTERS)
    assert name[0] not in "._-"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a b", "a\n", "-a", ".a", "x" * 64, "x" * 300, "a\0", "é"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadName) as refused:
        check_name(name)
    assert len(refused.value.message) < 400


@given(st.integers(-(10**12), 10**12))
def test_a_tier_holds_what_was_asked_for_and_no_smaller_one_does(wanted: int) -> None:
    try:
        tier = memory_tier(wanted)
    except BadSetting:
        assert wanted < MEMORY_TIERS_MIB[0] or wanted > MEMORY_TIERS_MIB[-1]
        return
    assert tier in MEMORY_TIERS_MIB
    assert wanted <= tier
    assert all(smaller < wanted for smaller in MEMORY_TIERS_MIB if smaller < tier)


def test_memory_is_rounded_up_to_its_tier() -> None:
    assert SandboxSpec(memory_mib=300).memory_mib == 512


@pytest.mark.parametrize(
    "settings",
    [{"cpus": 0}, {"cpus": 17}, {"cpus": -1}, {"disk_mib": 255}, {"disk_mib": (1 << 20) + 1},
     {"memory_mib": 127}, {"memory_mib": 32769}],
)  # fmt: skip
def test_sizes_out_of_range_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(BadSetting) as refused:
        SandboxSpec(**settings)  # type: ignore[arg-type]
    assert refused.value.hint


def test_variables_keep_everything_after_the_first_equals_sign() -> None:
    assert parse_environment(["A=b=c", "B=", "C= x ", "A=last"]) == {
        "A": "last",
        "B": "",
        "C": " x ",
    }


@pytest.mark.parametrize("pair", ["", "A", "=x", "A=\0", "A\0=x"])
def test_what_is_no_variable_is_refused(pair: str) -> None:
    with pytest.raises(BadSetting):
        parse_environment(["GOOD=1", pair])
