"""How well the inspection tells dangerous snippets from innocent ones, on the half that it was not tuned on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.agent.risk.corpus import Snippet, all_snippets, second_snippets

from crucible.agent.risk import Category, Language, inspect

SNIPPETS = all_snippets()
HELD_OUT = [snippet for snippet in SNIPPETS if snippet.is_held_out]
SECOND = second_snippets()
DEVELOPMENT = [snippet for snippet in SNIPPETS if not snippet.is_held_out]


def test_the_corpus_is_large_and_half_of_it_is_innocent() -> None:
    innocent = [snippet for snippet in SNIPPETS if not snippet.expect]
    assert len(SNIPPETS) >= 260
    assert 2 * len(innocent) >= len(SNIPPETS)
    assert len({snippet.id for snippet in SNIPPETS}) == len(SNIPPETS)
    assert {snippet.language for snippet in SNIPPETS} == set(Language)
    assert {name for snippet in SNIPPETS for name in snippet.expect} <= set(Category)
    assert min(len(HELD_OUT), len(DEVELOPMENT)) > 0.4 * len(SNIPPETS)


@pytest.mark.parametrize("half", ["development", "held-out"])
def test_precision_and_recall_are_at_least_nine_in_ten(
    half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = HELD_OUT if half == "held-out" else DEVELOPMENT
    dangerous, categories, wrong = measure(snippets)
    with capsys.disabled():
        print(
            f"\n{half}, {len(snippets)} snippets: {show(*dangerous)}; by category: {show(*categories)}"
        )
    for true, false, missed in (dangerous, categories):
        assert true / (true + false) >= 0.9, wrong
        assert true / (true + missed) >= 0.9, wrong


@pytest.mark.parametrize("language", [Language.PYTHON, Language.JAVASCRIPT, Language.SHELL])
def test_what_somebody_else_labelled_is_told_apart_as_well(
    language: Language, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = [snippet for snippet in SECOND if snippet.language is language]
    innocent = [snippet for snippet in snippets if not snippet.expect]
    assert len(snippets) >= 80
    assert 2 * len(innocent) >= len(snippets)
    (true, false, missed), _, wrong = measure(snippets)
    with capsys.disabled():
        print(f"\nsecond set, {language}, {len(snippets)} snippets: {show(true, false, missed)}")
    assert true / (true + false) >= 0.9, wrong
    assert true / (true + missed) >= 0.9, wrong


def measure(
    snippets: Iterable[Snippet],
) -> tuple[tuple[int, int, int], tuple[int, int, int], list[str]]:
    """True, false and missed, of dangerous snippets and of categories; and the ids of what is wrong."""
    dangerous, categories = [0, 0, 0], [0, 0, 0]
    wrong = []
    for snippet in snippets:
        found = {str(name) for name in inspect(snippet.code, snippet.language).categories}
        if bool(found) != bool(snippet.expect):
            wrong.append(snippet.id)
        dangerous[0] += bool(found and snippet.expect)
        dangerous[1] += bool(found and not snippet.expect)
        dangerous[2] += bool(snippet.expect and not found)
        categories[0] += len(found & snippet.expect)
        categories[1] += len(found - snippet.expect)
        categories[2] += len(snippet.expect - found)
    return (
        (dangerous[0], dangerous[1], dangerous[2]),
        (categories[0], categories[1], categories[2]),
        wrong,
    )


def show(true: int, false: int, missed: int) -> str:
    return f"precision {true / (true + false):.3f}, recall {true / (true + missed):.3f}"
