"""A command line as permission rules see it: all its simple commands, however they are hidden, as texts.

A text is the words as the shell would run them, joined by spaces, quoted only where they must be.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import TYPE_CHECKING

from crucible.agent.permissions.mentions import Mentions, mentions_in_variable, mentions_of
from crucible.agent.risk.inspection import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NESTING,
    MAX_NODES,
    is_too_dense,
    parse,
    unread,
)
from crucible.agent.risk.places import FOREIGN, HOLE, Place, place_of
from crucible.agent.risk.report import Language
from crucible.agent.risk.shell.commands import UNKNOWN_WORD, Command, Redirect, Script, Word
from crucible.agent.risk.shell.reaching import git_verb
from crucible.agent.risk.shell.reading import Reader
from crucible.agent.risk.shell.wrappers import SHELLS, inner_of, reads_program

if TYPE_CHECKING:
    from ast_grep_py import Rule, SgNode

_BIN = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")
_PLAIN = re.compile(rf"[\w@%+=:,./~*?\[\]{{}}!^#{HOLE}-]+", re.ASCII)
# Texts that the shell may expand later on, where it takes them for the index of an array.
_LATE: list[Rule] = [
    {"kind": "raw_string", "regex": r"\[[\s\S]*(\$\(|`)"},
    {"kind": "ansi_c_string", "regex": r"\[[\s\S]*(\$\(|`)"},
    {"kind": "string", "regex": r"\[[\s\S]*\\(\$\(|`)"},
    {"kind": "word", "regex": r"\[[\s\S]*\\[$`]"},
]
_MAX_COMMANDS = 500
_MAX_WRAPPING = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """One simple command: `written` is what an allow must match, any of `forms` what a deny or an ask may match.

    `mentions` are what a deny or an ask may be about though it is not read as a command.
    """

    written: str
    forms: tuple[str, ...]
    mentions: Mentions


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """`is_whole` is false when some of it was not understood; `writes_out` when it redirects out of the workspace."""

    commands: tuple[Simple, ...]
    is_whole: bool
    writes_out: bool


def split(line: str) -> CommandLine:
    """Never raises, whatever the text."""
    splitter = _Splitter(line, nesting=0)
    try:
        splitter.run()
    except (_TooMuch, RecursionError):
        splitter.is_whole = False
    return CommandLine(
        commands=tuple(splitter.found), is_whole=splitter.is_whole, writes_out=splitter.writes_out
    )


class _TooMuch(Exception):
    pass


class _Splitter(Reader):
    def __init__(self, code: str, *, nesting: int) -> None:
        super().__init__(code)
        self.found: list[Simple] = []
        self.is_whole = True
        self.writes_out = False
        self._nesting = nesting
        self._depth = 0
        self._nodes = 0

    def run(self) -> None:
        is_odd = any(mark in self._code for mark in (HOLE, FOREIGN, "\0"))
        if len(self._code) > MAX_CHARACTERS or is_too_dense(self._code) or is_odd:
            self.is_whole = False
            return
        root = parse(self._code, Language.SHELL)
        if next(unread(root), None) is not None or root.find(any=_LATE) is not None:
            self.is_whole = False
        self.read(root)

    def enter(self) -> bool:
        self._depth += 1
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooMuch
        if self._depth > MAX_DEPTH:
            self.is_whole = False
        return self._depth <= MAX_DEPTH

    def leave(self) -> None:
        self._depth -= 1

    def on_unparsed(self, node: SgNode) -> None:
        self.is_whole = False

    def on_split_word(self, line: int, text: str) -> None:
        self.is_whole = False

    def on_lone_assignment(self, name: str, word: Word) -> None:
        # It may change what later commands are: `PATH=. ; git status`.
        text = f"{name}={word.text}"
        simple = _simple(Command(words=(Word(text=text, shape=f"{name}={word.shape}"),)))
        self._keep(replace(simple, mentions=mentions_in_variable(name, word.text)))

    def on_redirect(self, redirect: Redirect, node: SgNode) -> None:
        self._look_at(redirect)

    def on_command(self, command: Command) -> None:
        for redirect in command.redirects:
            self._look_at(redirect)
        self._take(command, 0)

    def _take(self, command: Command, wrapping: int) -> None:
        if not command.words:
            return
        if wrapping > _MAX_WRAPPING:
            raise _TooMuch
        self._add(command)
        if command.name == "alias" and any("=" in text for text in command.texts):
            # Where aliases are expanded, any later word may be one.
            self._add(Command(words=(UNKNOWN_WORD,)))
        for inner in inner_of(command):
            if isinstance(inner, Script):
                self._program(inner.word, inner.language)
            else:
                self._take(inner, wrapping + 1)
        language = reads_program(command)
        if command.stdin is not None and language is Language.SHELL:
            text = command.stdin.text
            self._program(UNKNOWN_WORD if text is None else Word(text=text, shape=text), language)

    def _program(self, word: Word, language: Language | None) -> None:
        if language is not Language.SHELL:
            return
        if not word.is_known or word.shape != word.text:
            # Variables were followed, but they may be something else by then.
            self._add(Command(words=(UNKNOWN_WORD,)))
        if not word.is_known:
            return
        if self._nesting >= MAX_NESTING:
            raise _TooMuch
        within = _Splitter(word.text.replace(FOREIGN, "\ufffd"), nesting=self._nesting + 1)
        within.run()
        for simple in within.found:
            self._keep(simple)
        self.is_whole = self.is_whole and within.is_whole
        self.writes_out = self.writes_out or within.writes_out

    def _look_at(self, redirect: Redirect) -> None:
        if not redirect.is_write:
            return
        target = redirect.target
        place = place_of(target.text, directory=self.directory)
        is_stream = place is Place.HARMLESS and target.text.startswith("/dev/")
        if target.shape != target.text or not (place is Place.INSIDE or is_stream):
            self.writes_out = True

    def _add(self, command: Command) -> None:
        self._keep(_simple(command))

    def _keep(self, simple: Simple) -> None:
        if len(self.found) >= _MAX_COMMANDS:
            raise _TooMuch
        self.found.append(simple)


def _simple(command: Command) -> Simple:
    prefix = [_quoted(f"{name}={_open(word.shape)}") for name, word in command.assignments]
    shapes = [_open(word.shape) for word in command.words]
    directory, _, base = shapes[0].rpartition("/")
    written = [base if directory in _BIN else shapes[0], *shapes[1:]]
    texts = [[_open(word.text) for word in command.words], shapes]
    forms = dict.fromkeys(form for words in texts for form in _forms(words))
    return Simple(
        written=" ".join([*prefix, _joined(written)]),
        forms=tuple(forms),
        mentions=mentions_of(command),
    )


def _open(text: str) -> str:
    """A character that is not ASCII may be any."""
    return text.replace(FOREIGN, HOLE)


def _forms(words: list[str]) -> Iterable[str]:
    name = posixpath.basename(words[0]) or words[0]
    yield from _both([name, *words[1:]])
    if name in SHELLS or name in (".", "source"):
        # A file that is run by its name: `bash tool push`.
        rest = list(dropwhile(lambda word: word.startswith(("-", "+")), words[1:]))
        if rest:
            yield from _both([posixpath.basename(rest[0]) or rest[0], *rest[1:]])
    if name == "git":
        if any(word.startswith(("alias.", "--config-env=alias.")) for word in words[1:]):
            # Git's own aliases: the verb may be anything.
            yield f"git {HOLE}"
        verb, rest = git_verb(words[1:])
        yield from _both([name, verb, *rest] if verb else [name])
    elif name.startswith("git-"):
        yield from _both(["git", name[4:], *words[1:]])


def _both(words: list[str]) -> Iterable[str]:
    """With quotes and without: no quoting of a word shall keep a deny from it."""
    yield _joined(words)
    yield " ".join(words)


def _joined(words: Iterable[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)
