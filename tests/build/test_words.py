"""Words of an instruction: quotes, escapes and variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.build.words import LONGEST_WORD, BadWord, expand, split

KNOWN = {"X": "one", "EMPTY": "", "Y": "two"}


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("a", "a"),
        ("$X", "one"),
        ("${X}", "one"),
        ("$Xa", ""),
        ("${X}a", "onea"),
        ("$NONE", ""),
        ("$", "$"),
        ("$1", "$1"),
        ("\\$X", "$X"),
        ("'$X'", "$X"),
        ('"$X y"', "one y"),
        ('"\\a\\"\\$X"', '\\a"$X'),
        ("\\a", "a"),
        ("a\\", "a\\"),
        ("${X:-d}", "one"),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY-d}", ""),
        ("${NONE-d}", "d"),
        ("${X:+d}", "d"),
        ("${EMPTY:+d}", ""),
        ("${EMPTY+d}", "d"),
        ("${NONE:+d}", ""),
        ("${NONE:-${Y}}", "two"),
        ("${NONE:-a${X:+b}c}", "abc"),
        ("${NONE:-}", ""),
        ("/x:$X/${Y}", "/x:one/two"),
    ],
)
def test_variables_and_quotes_are_resolved(text: str, wanted: str) -> None:
    assert expand(text, KNOWN, "\\") == wanted


@pytest.mark.parametrize("text", ["${", "${X", "${}", "${X:?no}", "${X#a}", "'a", '"a', "${1}"])
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadWord):
        expand(text, KNOWN, "\\")


def test_words_end_at_blanks_outside_of_quotes() -> None:
    assert split('a  \'b c\' d\\ e "f\\" g"h\t', "\\") == ("a", "'b c'", "d\\ e", '"f\\" g"h')
    assert split("`'", "`") == ("`'",)
    with pytest.raises(BadWord):
        split("a 'b", "\\")


def test_a_value_cannot_grow_without_end() -> None:
    with pytest.raises(BadWord, match="longer"):
        expand("$A" * 100, {"A": "x" * (LONGEST_WORD // 50)}, "\\")


def test_nesting_has_an_end() -> None:
    with pytest.raises(BadWord, match="nested"):
        expand("${N:-" * 500 + "}" * 500, {}, "\\")


@given(st.text("aX${}:-+'\"\\ ", max_size=60), st.sampled_from("\\`"))
def test_any_word_is_resolved_or_refused(text: str, escape: str) -> None:
    try:
        expand(text, KNOWN, escape)
    except BadWord:
        return


@given(st.text(max_size=60), st.sampled_from("\\`"))
def test_splitting_loses_only_blanks(text: str, escape: str) -> None:
    try:
        words = split(text, escape)
    except BadWord:
        return
    assert all(words)
    assert "".join(text.split()) == "".join("".join(words).split())
