"""What a shell program is made of, once read: words, simple commands, and programs handed to interpreters."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crucible.agent.risk.places import HOLE, WORKSPACE
from crucible.agent.risk.report import Language

if TYPE_CHECKING:
    from ast_grep_py import SgNode

# Where a text comes from, as far as it matters to what is done with it.
DECODED, FETCHED, BUILT, SECRET = "decoded", "fetched", "built", "secret"
NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """`text` has what is known of it, with variables followed; `shape` only what is written out. Both with holes."""

    text: str
    shape: str
    sources: frozenset[str] = NOWHERE

    @property
    def is_known(self) -> bool:
        return HOLE not in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    operator: str
    target: Word

    @property
    def is_write(self) -> bool:
        return ">" in self.operator and not (
            "&" in self.operator and self.target.text.lstrip("-").isdigit()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What a command reads or prints: its text where that is known."""

    text: str | None = None
    sources: frozenset[str] = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command. `stdin` is none where nothing in the program hands it input; `node` is where it stands."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: Stream | None = None
    node: SgNode | None = None
    directory: str = WORKSPACE

    @property
    def name(self) -> str:
        """Without its directory; empty when there is none."""
        return posixpath.basename(self.words[0].text) if self.words else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words[1:]]

    def with_words(self, words: Iterable[Word]) -> Command:
        return replace(self, words=tuple(words), assignments=(), redirects=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A program that a command hands to an interpreter; no language where there is no grammar for it."""

    word: Word
    language: Language | None
    via: Command


def known(text: str, sources: frozenset[str] = NOWHERE) -> Word:
    return Word(text=text, shape=text, sources=sources)


UNKNOWN_WORD = known(HOLE)
