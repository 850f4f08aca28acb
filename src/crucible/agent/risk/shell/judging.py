"""Judges a shell program: every simple command, what it hands on, and the programs it hands to interpreters."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crucible.agent.risk.names import is_secret_name
from crucible.agent.risk.places import HOLE
from crucible.agent.risk.report import Language
from crucible.agent.risk.shell.commands import (
    DECODED,
    FETCHED,
    SECRET,
    Command,
    Redirect,
    Script,
    Word,
)
from crucible.agent.risk.shell.files import judge_files, judge_redirect
from crucible.agent.risk.shell.reaching import is_connection, judge_reach
from crucible.agent.risk.shell.reading import Reader
from crucible.agent.risk.shell.system import judge_system
from crucible.agent.risk.shell.wrappers import SHELLS, inner_of, reads_program

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from crucible.agent.risk.inspection import Inspection

_PRELOADS = frozenset(
    {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV"}
)
_MAX_WRAPPING = 12
# How a name that stands for its unknown parts in a program that was built is written in the shell.
_UNKNOWN_VARIABLE = "${_}"


class Judge(Reader):
    def __init__(self, inspection: Inspection, code: str) -> None:
        super().__init__(code)
        self._inspection = inspection
        self._fetched_files: set[str] = set()

    def enter(self) -> bool:
        self._inspection.step()
        return self._inspection.enter()

    def leave(self) -> None:
        self._inspection.leave()

    def on_unparsed(self, node: SgNode) -> None:
        self._inspection.unparsed(node)

    def on_split_word(self, line: int, text: str) -> None:
        self._inspection.miss("split-word", line, 0, text)

    def on_variable(self, name: str, node: SgNode) -> None:
        if is_secret_name(name) and name not in self._variables:
            self._inspection.find("credential-variable", node)

    def on_assignment(self, name: str, word: Word, node: SgNode) -> None:
        if name in _PRELOADS:
            self._inspection.find("preload", node)

    def on_redirect(self, redirect: Redirect, node: SgNode) -> None:
        for rule in judge_redirect(redirect, self.directory):
            self._inspection.find(rule, node)

    def on_function(self, name: str, node: SgNode) -> None:
        for pipeline in node.find_all(kind="pipeline"):
            calls = [
                child.text().strip() for child in pipeline.children() if child.kind() == "command"
            ]
            if len(calls) > 1 and all(call.split()[:1] == [name] for call in calls):
                self._inspection.find("fork-bomb", node)

    def on_command(self, command: Command) -> None:
        for redirect in command.redirects:
            for rule in judge_redirect(redirect, command.directory):
                self._tell(rule, command)
        self._judge(command, 0)

    def judge_alone(self, command: Command) -> None:
        """A command that was given as words, without a shell."""
        self._judge(command, 0)

    def _judge(self, command: Command, depth: int) -> None:
        if not command.words:
            return
        if depth > _MAX_WRAPPING:
            self._inspection.miss("too-deep")
            return
        self._judge_name(command)
        for rules in (judge_reach(command), judge_files(command), judge_system(command)):
            for rule in rules:
                self._tell(rule, command)
        self._judge_flow(command)
        for inner in inner_of(command):
            if isinstance(inner, Script):
                self._judge_script(inner)
            else:
                self._judge(inner, depth + 1)

    def _judge_name(self, command: Command) -> None:
        word = command.words[0]
        if HOLE in word.text:
            self._tell_source(word.sources, command, otherwise="unknown-command")
        elif DECODED in word.sources:
            self._tell("hidden-name", command)

    def _judge_flow(self, command: Command) -> None:
        """What it reads from a pipe, a heredoc or a file that was fetched, and does with it."""
        stdin = command.stdin
        if is_connection(command):
            if stdin is not None and SECRET in stdin.sources:
                self._tell("exfiltration", command)
            self._remember_fetched(command)
        if command.name in (*SHELLS, ".", "source") and any(
            FETCHED in word.sources for word in command.arguments
        ):
            self._tell("fetched-code", command)
        run = (
            command.texts[0] if command.name in SHELLS and command.texts else command.words[0].text
        )
        if run.removeprefix("./") in self._fetched_files:
            self._tell("fetched-code", command)
        language = reads_program(command)
        if stdin is None or language is False:
            return
        if stdin.text is not None:
            if DECODED in stdin.sources:
                self._tell("decoded-code", command)
            self._look(stdin.text, language, command)
        elif stdin.sources & {DECODED, FETCHED}:
            self._tell_source(stdin.sources, command, otherwise="piped-code")
        else:
            self._tell("piped-code", command)

    def _judge_script(self, script: Script) -> None:
        word, command = script.word, script.via
        if script.language is None:
            self._tell("other-language", command)
            return
        if word.is_known:
            if DECODED in word.sources:
                self._tell("decoded-code", command)
            self._look(word.text, script.language, command)
            return
        is_unknown = not word.text.strip(HOLE + " ")
        if not is_unknown:
            self._look(word.text.replace(HOLE, _UNKNOWN_VARIABLE), script.language, command)
        if is_unknown or command.name == "eval" or word.sources & {DECODED, FETCHED}:
            self._tell_source(word.sources, command, otherwise="dynamic-code")

    def _look(self, code: str, language: object, command: Command) -> None:
        if isinstance(language, Language):
            self._inspection.program(code, language, at=command.node)
        else:
            self._tell("other-language", command)

    def _remember_fetched(self, command: Command) -> None:
        texts = command.texts
        for option, value in pairwise(texts):
            if option in ("-o", "-O", "--output", "--output-document"):
                self._fetched_files.add(value.removeprefix("./"))
        for redirect in command.redirects:
            self._fetched_files.add(redirect.target.text.removeprefix("./"))
        if command.name == "wget" or "-O" in texts or "-LO" in texts:
            for text in texts:
                if "/" in text and not text.startswith("-"):
                    self._fetched_files.add(text.rpartition("/")[2])

    def _tell_source(self, sources: frozenset[str], command: Command, *, otherwise: str) -> None:
        if FETCHED in sources:
            self._tell("fetched-code", command)
        elif DECODED in sources:
            self._tell("decoded-code", command)
        else:
            self._tell(otherwise, command)

    def _tell(self, rule: str, command: Command) -> None:
        if command.node is not None:
            self._inspection.find(rule, command.node)
        else:
            self._inspection.find_at(rule, 0, 0, " ".join(word.text for word in command.words))
