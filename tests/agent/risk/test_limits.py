"""Whatever the text, inspection ends, and says when it has not seen all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.agent.risk import Language, inspect, inspect_command
from crucible.agent.risk.inspection import MAX_CHARACTERS, MAX_FINDINGS

LANGUAGES = st.sampled_from(list(Language))
# Pieces that mean something, so that a random text gets further than its first letter.
PIECES = st.sampled_from(
    [
        *(
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "'",
            '"',
            "`",
            "$",
            "$(",
            "${",
            "<<E\n",
            "E\n",
            "\\",
            "\n",
            " ",
            ";",
            "|",
        ),
        *(
            "&&",
            "a",
            "eval",
            "exec",
            "import os",
            "os.",
            "system",
            "getattr(",
            "require(",
            "f'{",
            "`${",
            "=",
            "+",
        ),
        *(
            "rm -rf /",
            "sudo ",
            "bash -c ",
            "python3 -c ",
            "base64 -d",
            "lambda x:",
            "=>",
            "#",
            "//",
            "/*",
            "*/",
        ),
        *(
            "if ",
            "then ",
            "fi",
            "for x in ",
            "do ",
            "done",
            "é",
            "\0",
            "\ud800",
            "\ue0ff",
            "x" * 50,
            "\\x41",
            "@",
        ),
    ]
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=400), LANGUAGES)
def test_no_text_is_too_odd(code: str, language: Language) -> None:
    report = inspect(code, language)
    assert len(report.findings) <= MAX_FINDINGS


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=60).map("".join), LANGUAGES)
def test_no_program_is_too_odd(code: str, language: Language) -> None:
    report = inspect(code, language)
    assert all(found.line >= 1 and found.column >= 1 for found in report.findings)
    assert report == inspect(code, language)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=30) | PIECES, max_size=8))
def test_no_words_are_too_odd(words: list[str]) -> None:
    inspect_command(words)


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize(
    "unit", ["(", "[", "{", "'", '"', "`", "`${", "$(", "a|", "a;", "f'{", "!", "a.b()", "<a>", "\\", "<<A\n", "a+"]
)  # fmt: skip
def test_nesting_without_end_comes_to_an_end(unit: str, language: Language) -> None:
    report = inspect(unit * (4000 // len(unit)), language)
    assert len(report.findings) <= MAX_FINDINGS


def test_what_is_too_large_is_told_and_not_looked_at() -> None:
    report = inspect("x" * (MAX_CHARACTERS + 1), Language.PYTHON)
    assert [found.rule for found in report.findings] == ["too-large"]
    assert not report.is_whole
    assert not inspect("a|" * 7000, Language.SHELL).is_whole
    assert not inspect_command(["x" * MAX_CHARACTERS]).is_whole


def test_what_is_too_deep_is_told() -> None:
    code = "x = " + "'a' + " * 500 + "'b'"
    report = inspect(code, Language.PYTHON)
    assert "too-deep" in {found.rule for found in report.findings}
    assert not report.is_whole


def test_programs_within_programs_are_followed_only_so_far() -> None:
    code = "sudo id"
    for _ in range(7):
        code = "eval " + "'" + code.replace("'", "'\\''") + "'"
    report = inspect(code, Language.SHELL)
    assert "too-deep" in {found.rule for found in report.findings}


@pytest.mark.parametrize("language", list(Language))
def test_letters_of_every_script_are_taken(language: Language) -> None:
    """The shell's grammar alone would end the process at letters beyond ASCII."""
    for start in range(0x80, 0x110000, 0x1357):
        letters = "".join(
            chr(start + step) for step in range(4) if not 0xD800 <= start + step < 0xE000
        )
        inspect(f"x {letters}{{a}} ${letters} '{letters}' {letters}=1", language)
