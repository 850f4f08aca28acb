"""One inspection at work: its limits, what it found so far, and the way into programs within programs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from crucible.agent.risk.places import FOREIGN
from crucible.agent.risk.report import Finding, Language, Report
from crucible.agent.risk.rules import RULES

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MAX_CHARACTERS = 64 * 1024
# The grammar of the shell takes time by the square of these, and cannot be stopped once it has begun.
MAX_SHELL_MARKS = 6000
_SHELL_MARKS = "|[(`<>"
MAX_NODES = 40_000
MAX_DEPTH = 150
MAX_PROGRAMS = 64
MAX_NESTING = 5
MAX_FINDINGS = 100
# For a host that stands still; an ordinary snippet takes a few milliseconds.
MAX_SECONDS = 5.0
_EXCERPT = 120
_MAX_UNPARSED = 10
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
# Of the pieces that the parser puts in where it misses one, those that have a name; other empty nodes are innocent.
_MISSED = frozenset({"identifier", "property_identifier", "word", "variable_name"})

_GRAMMARS = {
    Language.PYTHON: "python",
    Language.JAVASCRIPT: "javascript",
    Language.TYPESCRIPT: "typescript",
    Language.TSX: "tsx",
    Language.SHELL: "bash",
}


class GivenUp(Exception):
    """A limit was reached; what was found until then stands."""


class Inspection:
    """Collects findings. `depth` counts across programs within programs, since they share one stack."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, int, int, str], Finding] = {}
        self._nodes = 0
        self._depth = 0
        self._programs = 0
        # Where the programs begin that are being looked at, within those around them.
        self._places: list[tuple[int, int]] = []
        self._deadline = time.monotonic() + MAX_SECONDS
        self._is_whole = True
        self._unparsed = 0

    def report(self) -> Report:
        ordered = sorted(self._findings.values(), key=lambda found: (found.line, found.column))
        return Report(findings=tuple(ordered), is_whole=self._is_whole)

    def has_found(self, *names: str) -> bool:
        return any(rule in names for rule, *_ in self._findings)

    def find(self, name: str, node: SgNode) -> None:
        start = node.range().start
        self.find_at(name, start.line, start.column, node.text())

    def find_at(self, name: str, line: int, column: int, text: str) -> None:
        """`line` and `column` count from 0. A program within another one lies where the outer one runs it."""
        if len(self._places) > 1:
            line, column = self._places[1]
        key = (name, line, column, excerpt := _excerpt(text))
        if key in self._findings or len(self._findings) >= MAX_FINDINGS:
            return
        rule = RULES[name]
        self._findings[key] = Finding(
            category=rule.category,
            severity=rule.severity,
            line=line + 1,
            column=column + 1,
            excerpt=excerpt,
            why=rule.why,
            rule=name,
        )

    def miss(self, name: str, line: int = 0, column: int = 0, text: str = "") -> None:
        """Some of the code could not be looked at."""
        self._is_whole = False
        self.find_at(name, line, column, text)

    def step(self) -> None:
        """Counts a node of a tree; raises when there were too many, or too much time has gone."""
        self._nodes += 1
        if self._nodes > MAX_NODES or (
            self._nodes % 512 == 0 and time.monotonic() > self._deadline
        ):
            self.miss("too-large")
            raise GivenUp

    def enter(self) -> bool:
        """One level further down; false when this is too deep to go on. `leave` follows in any case."""
        self._depth += 1
        if self._depth <= MAX_DEPTH:
            return True
        self.miss("too-deep")
        return False

    def leave(self) -> None:
        self._depth -= 1

    def program(self, code: str, language: Language, *, at: SgNode | None = None) -> None:
        """Looks at a program, which may be one that another one runs."""
        start = at.range().start if at is not None else None
        place = (start.line, start.column) if start is not None else (0, 0)
        self._programs += 1
        if self._programs > MAX_PROGRAMS or len(self._places) > MAX_NESTING:
            self.miss("too-deep", *place)
            return
        self._places.append(place)
        try:
            self._look(code, language)
        finally:
            self._places.pop()

    def unparsed(self, node: SgNode) -> None:
        """Where a place is asked for, the parser counts from the beginning of the text: so not for all of many."""
        self._is_whole = False
        self._unparsed += 1
        if self._unparsed <= _MAX_UNPARSED:
            self.find("unparsed", node)

    def _look(self, code: str, language: Language) -> None:
        if len(code) > MAX_CHARACTERS or (language is Language.SHELL and is_too_dense(code)):
            self.miss("too-large", text=code[:_EXCERPT])
            return
        if language is Language.SHELL and "\0" in code:
            # No shell is given one, and the parser takes it for the end.
            self.miss("unparsed", text=code)
        root = parse(code, language)
        for node in unread(root):
            self.unparsed(node)
        match language:
            case Language.SHELL:
                from crucible.agent.risk.shell.judging import Judge

                Judge(self, code).read(root)
            case Language.PYTHON:
                from crucible.agent.risk.programs.python import PythonReader

                PythonReader(self).read(root)
            case Language.JAVASCRIPT | Language.TYPESCRIPT | Language.TSX:
                from crucible.agent.risk.programs.javascript import JavaScriptReader

                JavaScriptReader(self).read(root)


def unread(root: SgNode) -> Iterator[SgNode]:
    """What the parser could not read, and what it put in to be able to go on."""
    for node in root.find_all(any=[{"kind": "ERROR"}, {"regex": "^$"}]):
        kind = node.kind()
        if kind == "ERROR" or not node.is_named() or kind in _MISSED:
            yield node


def is_too_dense(code: str) -> bool:
    """A shell program that would take the parser too long."""
    return sum(map(code.count, _SHELL_MARKS)) > MAX_SHELL_MARKS


def parse(code: str, language: Language) -> SgNode:
    from ast_grep_py import SgRoot

    # Half of a surrogate pair cannot be handed to the parser; nor can it be run.
    clean = code.encode("utf-8", "replace").decode("utf-8")
    if language is Language.SHELL:
        # The scanner of this grammar looks letters up in a table that only ASCII has, and crashes beyond it.
        clean = _BEYOND_ASCII.sub(FOREIGN, clean)
    return SgRoot(clean, _GRAMMARS[language]).root()


def _excerpt(text: str) -> str:
    """One line that may be shown on a terminal."""
    line = text.strip().partition("\n")[0][: 2 * _EXCERPT]
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"
