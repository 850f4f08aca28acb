"""What a use of a tool is matched by: the simple commands of a command line, a normalized path, or a text as it is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from crucible.agent.permissions.commands import CommandLine, split
from crucible.agent.permissions.patterns import Pattern
from crucible.agent.risk.places import HOLE, normalize
from crucible.agent.tools.base import Use

_SHELL_TOOLS = frozenset({"bash"})
_PATH_TOOLS = frozenset({"read", "write", "edit", "ls", "publish"})


class Match(Enum):
    """POSSIBLE where it depends on what is not known before it runs; only a deny and an ask ask for that."""

    NO = 0
    POSSIBLE = 1
    CERTAIN = 2


class Subject(Protocol):
    @property
    def text(self) -> str: ...

    def match(self, pattern: Pattern | None) -> Match:
        """Whether a deny or an ask with this pattern is about it; no pattern is about all."""
        ...

    def allowed_by(self, patterns: Sequence[Pattern | None]) -> int | None:
        """Which of these allows it; all of it, and for certain."""
        ...


def subject_of(use: Use) -> Subject:
    is_shell = (
        use.code is not None and use.code.language == "shell" and use.code.text == use.subject
    )
    if use.tool in _SHELL_TOOLS or is_shell:
        return _Commands(use.subject)
    if use.tool in _PATH_TOOLS:
        return _Path(use.subject)
    return _Text(use.subject)


class _Commands:
    """Split only when a pattern asks for it."""

    def __init__(self, line: str) -> None:
        self.text = line
        self._line: CommandLine | None = None

    def match(self, pattern: Pattern | None) -> Match:
        if pattern is None or pattern.is_exactly(self.text):
            return Match.CERTAIN
        line = self._split()
        forms = [form for simple in line.commands for form in simple.forms]
        if any(pattern.matches(form) for form in forms if HOLE not in form):
            return Match.CERTAIN
        if not line.is_whole or any(pattern.could_match(form) for form in forms):
            return Match.POSSIBLE
        is_mentioned = any(simple.mentions.has(pattern) for simple in line.commands)
        return Match.POSSIBLE if is_mentioned else Match.NO

    def allowed_by(self, patterns: Sequence[Pattern | None]) -> int | None:
        """Each simple command by one of them; nothing that was not understood, and no file outside the workspace."""
        if None in patterns:
            return patterns.index(None)
        line = self._split() if patterns else None
        if line is None or not line.is_whole or line.writes_out or not line.commands:
            return None
        used = [_first_match(patterns, simple.written) for simple in line.commands]
        return None if None in used else used[0]

    def _split(self) -> CommandLine:
        if self._line is None:
            self._line = split(self.text)
        return self._line


class _Path:
    """Normalized by its text alone: a link inside the sandbox may lead elsewhere."""

    def __init__(self, path: str) -> None:
        self.text = path
        self._path = normalize(path)

    def match(self, pattern: Pattern | None) -> Match:
        if pattern is None or pattern.matches_path(self._path):
            return Match.CERTAIN
        return Match.POSSIBLE if "\0" in self._path else Match.NO

    def allowed_by(self, patterns: Sequence[Pattern | None]) -> int | None:
        for number, pattern in enumerate(patterns):
            if pattern is None or ("\0" not in self._path and pattern.matches_path(self._path)):
                return number
        return None


class _Text:
    def __init__(self, text: str) -> None:
        self.text = text

    def match(self, pattern: Pattern | None) -> Match:
        is_match = pattern is None or pattern.matches(self._plain)
        return Match.CERTAIN if is_match else Match.NO

    def allowed_by(self, patterns: Sequence[Pattern | None]) -> int | None:
        return _first_match(patterns, self._plain)

    @property
    def _plain(self) -> str:
        return self.text.replace(HOLE, "\ufffd")


def _first_match(patterns: Sequence[Pattern | None], text: str) -> int | None:
    for number, pattern in enumerate(patterns):
        if pattern is None or pattern.matches(text):
            return number
    return None
