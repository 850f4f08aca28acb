"""What tells of facts that are to be forgotten, wherever else it was kept: found in a text, and put out of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from crucible.memory.facts import Fact
from crucible.memory.words import terms

MARKER = "[forgotten]"
_LEAST_LETTERS = 4
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[^.!?…\n。！？]+[.!?…。！？]*")
# They are in so many statements that they do not tell one from another.
COMMON = frozenset(
    terms("lives works is named called prefers wants likes never always has their from now on")
)


class Traces:
    """The user's sentence and the statement made of it, however spaced and punctuated.

    Looked at `closely`, each sentence goes that has most of the words by which the statement is told from others: so it
    is where the fact was said or told to a model. Elsewhere the same words are about something else.
    """

    def __init__(self, gone: Sequence[Fact]) -> None:
        self.ids = frozenset(fact.id for fact in gone)
        self.sources = frozenset(
            (fact.source.session, fact.source.turn) for fact in gone if fact.source.session
        )
        # By one of their words each, so that few are tried on a text, however many facts go.
        self._patterns: dict[str, list[re.Pattern[str]]] = {}
        self._telling: dict[str, list[frozenset[str]]] = {}
        for words in {telling(fact) for fact in gone}:
            for word in words:
                self._telling.setdefault(word, []).append(words)
        self.add(text for fact in gone for text in (fact.source.quote, fact.text))

    def add(self, texts: Iterable[str]) -> None:
        """These are to go as well, word for word."""
        for text in dict.fromkeys(_plain(text) for text in texts):
            words = _WORD.findall(text)
            if sum(map(len, words)) >= _LEAST_LETTERS:
                said = r"[\W_]+".join(map(re.escape, words))
                pattern = re.compile(rf"(?<![^\W_]){said}(?![^\W_])", re.IGNORECASE)
                rarest = max(words, key=len).casefold()
                self._patterns.setdefault(rarest, []).append(pattern)

    def is_in(self, text: str, *, closely: bool) -> bool:
        return self.redacted(text, closely=closely) != text

    def redacted(self, text: str, *, closely: bool) -> str:
        """The same text if there is nothing of it in there."""
        plain = changed = _plain(text)
        for word in dict.fromkeys(word.casefold() for word in _WORD.findall(plain)):
            for pattern in self._patterns.get(word, ()):
                changed = pattern.sub(MARKER, changed)
        if closely and self._telling:
            changed = _SENTENCE.sub(self._sentence, changed)
        return text if changed == plain else changed

    def _sentence(self, match: re.Match[str]) -> str:
        said = match.group()
        found = set(terms(said))
        near = (words for word in found for words in self._telling.get(word, ()))
        if not any(2 * len(words & found) > len(words) for words in near):
            return said
        return said[: len(said) - len(said.lstrip())] + MARKER


def telling(fact: Fact) -> frozenset[str]:
    """The words by which a statement is told from others."""
    return frozenset(terms(fact.text)) - COMMON


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text)
