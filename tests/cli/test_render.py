"""Text for people: legible, and harmless whatever it was made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.cli import render


@given(st.text())
def test_whatever_is_shown_is_printable(text: str) -> None:
    assert render.visible(text).isprintable()


@given(st.text().filter(str.isprintable))
def test_what_is_printable_is_shown_as_it_is(text: str) -> None:
    assert render.visible(text) == text


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\\xff"),
        ("\u202e", "\\u202e"),
        ("\x9b", "\\x9b"),
        ("größe 大", "größe 大"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_not_text_is_escaped(text: str, shown: str) -> None:
    assert render.visible(text) == shown


@pytest.mark.parametrize(
    "count, shown",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (500 << 20, "500 MiB"),
        (3 << 40, "3.0 TiB"),
        (1 << 60, "1048576 TiB"),
    ],
)
def test_sizes_are_short(count: int, shown: str) -> None:
    assert render.size(count) == shown


@pytest.mark.parametrize("mib, shown", [(512, "512 MiB"), (2048, "2 GiB"), (128, "128 MiB")])
def test_memory_is_told_in_round_figures(mib: int, shown: str) -> None:
    assert render.memory(mib) == shown


@pytest.mark.parametrize(
    "seconds, shown",
    [(-5, "0 s"), (0, "0 s"), (90, "90 s"), (600, "10 min"), (7200, "2 h"), (10**6, "12 d")],
)
def test_durations_are_coarse(seconds: float, shown: str) -> None:
    assert render.duration(seconds) == shown


def test_columns_are_as_wide_as_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    render.show_table(("NAME", "STATE"), [("a", "running"), ("long\x1bname", "stopped")])
    assert (
        capsys.readouterr().out
        == "NAME          STATE\na             running\nlong\\x1bname  stopped\n"
    )
