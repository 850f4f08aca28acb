"""What the pages say can be followed: links lead somewhere, commands exist, and so do the tests they name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Page, all_pages

from crucible.cli.grammar import BadUsage, HelpWanted, parse
from crucible.cli.main import find_command

PAGES = all_pages()
_OPERATORS = ("|", "||", "&&", ";", ">", "<", "2>", "&")
_TEST = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")
_PATH = re.compile(r"(?:src|guest|tests|benchmarks|scripts|docs)/[\w./-]+")

by_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


@by_page
def test_every_relative_link_leads_somewhere(page: Page) -> None:
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the project: {link}"
        if anchor:
            found = Page(path=target, text=target.read_text(encoding="utf-8"))
            assert anchor in found.anchors, f"{page.name} links to {link}"


@by_page
def test_every_command_shown_can_be_typed(page: Page) -> None:
    for line in page.shown_commands():
        for words in crucible_commands(line):
            try:
                parse(find_command(words[0]), words[1:])
            except HelpWanted:
                continue
            except BadUsage as error:
                pytest.fail(f"{page.name} shows `{line}`: {error.message}")


@by_page
def test_every_command_named_in_a_sentence_exists(page: Page) -> None:
    for span in page.spans:
        if not span.startswith("crucible ") or "COMMAND" in span:
            continue
        for words in crucible_commands(span):
            if words[0].startswith("-"):
                continue
            try:
                parse(find_command(words[0]), words[1:])
            except HelpWanted:
                continue
            except BadUsage as error:
                if "is missing" not in error.message and "needs" not in error.message:
                    pytest.fail(f"{page.name} says `{span}`: {error.message}")


@by_page
def test_every_test_that_is_named_exists(page: Page) -> None:
    for name in _TEST.findall(page.text):
        file, _, function = name.partition("::")
        path = ROOT / file
        assert path.exists(), f"{page.name} names {file}"
        if function:
            assert f"def {function}(" in path.read_text(encoding="utf-8"), f"{page.name}: {name}"


@by_page
def test_every_file_of_ours_that_is_named_exists(page: Page) -> None:
    made_later = ("src/crucible/server", "docs/reference/.")
    for span in page.spans:
        match = _PATH.fullmatch(span)
        if match and not span.startswith(made_later):
            assert (ROOT / span).exists(), f"{page.name} names {span}"


@by_page
def test_targets_of_make_that_are_named_exist(page: Page) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [*page.spans, *page.shown_commands()]
    named = [words[1] for text in commands if len(words := text.split()) > 1 and words[0] == "make"]
    assert set(named) <= set(targets), page.name


def test_the_pages_that_are_promised_are_there() -> None:
    names = {page.name for page in PAGES}
    assert {
        "README.md",
        "SECURITY.md",
        "SPECIFICATION.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/architecture.md",
        "docs/threat-model.md",
        "docs/limitations.md",
    } <= names


def test_every_decision_is_listed() -> None:
    listed = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs/adr").glob("0*.md")):
        assert f"({path.name})" in listed, path.name


def test_the_place_for_measurements_is_marked() -> None:
    text = (ROOT / "SPECIFICATION.md").read_text(encoding="utf-8")
    begin, end = text.index("<!-- bench:begin -->"), text.index("<!-- bench:end -->")
    assert begin < end


@pytest.mark.parametrize(
    "line, expected",
    [
        ("crucible run true; echo $?", [["run", "true"]]),
        ("echo hi | crucible exec box cat", [["exec", "box", "cat"]]),
        ("crucible diff box > changes.patch", [["diff", "box"]]),
        ("export PATH=x", []),
        ("crucible run sh -c 'a; b'", [["run", "sh", "-c", "a; b"]]),
    ],
)
def test_commands_are_found_in_a_line_of_shell(line: str, expected: list[list[str]]) -> None:
    assert crucible_commands(line) == expected


def crucible_commands(line: str) -> list[list[str]]:
    """The words after each `crucible` of a line, up to the next operator of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = []
    current: list[str] | None = []
    for word in lexer:
        if word in _OPERATORS:
            current = [] if word in ("|", "||", "&&", ";", "&") else None
        elif current is not None:
            if not current:
                commands.append(current)
            current.append(word)
    return [words[1:] for words in commands if Path(words[0]).name == "crucible" and words[1:]]
