"""Edits that match once, and what is said of those that do not; patterns of names; searching by expressions."""

from __future__ import annotations

import contextlib
import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.places import local_workplace
from tests.conftest import Run

from crucible.agent.tools import searching
from crucible.agent.tools.globs import Glob, expand, fixed_part
from crucible.agent.tools.matching import Edit, apply
from crucible.agent.tools.searching import Search
from crucible.errors import BadToolCall


def why(text: str, old: str, new: str = "new") -> str:
    with pytest.raises(BadToolCall) as caught:
        apply(text, Edit(old=old, new=new))
    return caught.value.message


@given(st.text(), st.text(min_size=1), st.text(), st.booleans())
def test_an_edit_is_an_exact_replacement_or_is_refused(
    text: str, old: str, new: str, is_everywhere: bool
) -> None:
    try:
        edited = apply(text, Edit(old=old, new=new, is_everywhere=is_everywhere))
    except BadToolCall:
        edited = None
    if edited is None:
        assert old == new or text.count(old) != 1
        return
    if "\r\n" not in text:
        assert edited.text == text.replace(old, new)
    assert edited.lines


@given(st.text(alphabet="ab \n"), st.text(alphabet="ab \n", min_size=1), st.text(alphabet="ab\n"))
def test_windows_line_ends_are_matched_and_kept(text: str, old: str, new: str) -> None:
    windows = text.replace("\n", "\r\n")
    try:
        expected = apply(text, Edit(old=old, new=new)).text
    except BadToolCall:
        return
    edited = apply(windows, Edit(old=old, new=new))
    if "\r\n" in windows:
        assert edited.text == expected.replace("\n", "\r\n")


def test_the_lines_of_an_edit_are_those_of_the_new_text() -> None:
    edited = apply("a\nb\na\n", Edit(old="a", new="x\ny", is_everywhere=True))
    assert edited.text == "x\ny\nb\nx\ny\n"
    assert edited.lines == (1, 4)


def test_what_does_not_match_is_explained() -> None:
    text = "def one():\n\treturn 1\n\ndef two():\n\treturn 2\n"
    assert "line 2 but for blanks" in why(text, "    return 1")
    assert r"'\treturn 1'" in why(text, "    return 1")
    assert "without the line numbers" in why(text, "     1\tdef one():")
    assert "     1\tdef one():" in why(text, "def ome():")
    assert "Nothing near" in why(text, "zzzzzzzzzzzz")
    assert "matches 2 times, at lines 2, 5" in why(text, "return")
    assert "the same" in why(text, "a", "a")
    assert "is empty" in why(text, "")
    assert "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …" in why("x\n" * 50, "x")


def test_a_large_file_that_does_not_match_is_explained_too() -> None:
    text = "".join(f"{'abcdefgh' * 30} {number}\n" for number in range(8000))
    assert "does not occur" in why(text, "abcdefgx" * 30)


def test_a_hostile_file_is_looked_through_only_so_far() -> None:
    text = "a\n" * 1_000_000
    assert "does not occur" in why(text, "a \n" * 499 + "b")
    assert "does not occur" in why(text, "a \n" * 100_000 + "b")


@given(
    st.text(alphabet="ab*?", max_size=8),
    st.text(alphabet="ab.", min_size=1, max_size=12),
)
def test_within_a_directory_a_pattern_means_what_shells_mean(pattern: str, name: str) -> None:
    if "**" not in pattern and pattern:
        assert Glob(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    "pattern, path, is_match",
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**/x/*.c", "src/a/x/b/x/c.c", True),
        ("src/**/x/*.c", "src/a/b/c.c", False),
        ("**/test_*.{ts,tsx}", "a/test_b.tsx", True),
        ("{a,b}/{c,d}", "b/c", True),
        ("{a,b}/{c,d}", "b/e", False),
        ("{a,{b,c}}x", "cx", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[]]", "]", True),
        ("a[", "a[", True),
        ("{a}", "{a}", True),
        ("*", ".hidden", True),
        ("a//b/", "a/b", True),
    ],
)
def test_patterns(pattern: str, path: str, is_match: bool) -> None:
    assert Glob(pattern).matches(path) is is_match


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not Glob("*a" * 400 + "b").matches("a" * 4000)
    assert not Glob("**/a/" * 150 + "b").matches("a/" * 2000 + "c")
    for pattern in ("{a,b}" * 20, "{" * 1000 + ",", "x" * 2000):
        try:
            Glob(pattern)
        except BadToolCall:
            continue
        assert pattern.count("{") == 1000


@given(st.text(alphabet="{},ab/*", max_size=20))
def test_braces_always_come_to_an_end(pattern: str) -> None:
    with contextlib.suppress(BadToolCall):
        assert expand(pattern)


def test_the_fixed_part_of_a_pattern_is_where_to_look() -> None:
    assert fixed_part("src/app/*.py") == "src/app"
    assert fixed_part("src/{a,b}/x") == "src"
    assert fixed_part("/etc/hosts") == "/etc"
    assert fixed_part("*.py") == ""


def search(pattern: str, **changes: object) -> Search:
    given = {"path": "/workspace", "glob": "", "names": None, "mode": "content",
             "ignores_case": False, "before": 0, "after": 0}  # fmt: skip
    return Search(pattern=pattern, **{**given, **changes})  # type: ignore[arg-type]


async def test_a_sandbox_without_grep_is_searched_from_here(run: Run) -> None:
    async with local_workplace() as place:
        await place.open()
        await place.write("/workspace/a.txt", b"one\r\ntwo\nthree\nfour\n")
        await place.write("/workspace/d/b.txt", b"TWO \xff\n")
        await place.write("/workspace/bin", b"two\0")
        await place.write("/workspace/.git/x", b"two\n")
        found = await searching.outside(search(r"^t\w+", before=1), place, is_file=False)
        assert [(line.number, line.is_match, line.text) for line in found.lines] == [
            (1, False, "one"),
            (2, True, "two"),
            (3, True, "three"),
        ]
        counted = await searching.outside(
            search("two", ignores_case=True, mode="count"), place, is_file=False
        )
        assert [(line.path, line.number) for line in counted.lines] == [
            ("/workspace/a.txt", 1),
            ("/workspace/d/b.txt", 1),
        ]
        one = await searching.outside(
            search("three", path="/workspace/a.txt", glob="*.txt", names=Glob("*.txt")),
            place, is_file=True,
        )  # fmt: skip
        assert len(one.lines) == 1
        wrong = await searching.outside(search("("), place, is_file=False)
        assert "not understood" in wrong.error


async def test_an_expression_without_end_holds_nobody_up(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "TIMEOUT_S", 0.5)
    async with local_workplace() as place:
        await place.open()
        await place.write("/workspace/a", b"a" * 5000 + b"!\n")
        found = await searching.outside(search(r"(a+)+$"), place, is_file=False)
        assert "took longer" in found.error
        assert found.is_cut
