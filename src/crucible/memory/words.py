"""Search by words: BM25 over the facts of one user, the same for every database. Knows English endings, no more."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"[^\W_]+(?:[.+#'’-]?[^\W_]+)*[+#]*")
_LONGEST_WORD = 64
_MOST_WORDS = 2000
_K1, _B = 1.2, 0.5

_STOP = (
    "a about after again all also am an and any are aren't as at be because been before being below "
    "between both but by can can't could couldn't did didn't do does doesn't doing don't down during each "
    "few for from further had hadn't has hasn't have haven't having he her here hers herself him himself "
    "his how i i'd i'll i'm i've if in into is isn't it it's its itself just let's may me might more most "
    "must my myself of off on once only or other ought our ours out over own please same shall she should "
    "shouldn't so some such than that that's the their theirs them themselves then there these they this "
    "those through to too under until up us use user user's users very was wasn't we were weren't what "
    "what's when where which while who whom whose why will with won't would wouldn't you you'd you'll "
    "you're your yours yourself "
)
STOP_WORDS = frozenset(_STOP.split())


def terms(text: str) -> list[str]:
    """What a text is found by: its words without accents, case, endings, and without those that say nothing."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    found = (match.group().replace("’", "'") for match in _WORD.finditer(plain))
    kept = [word for word in found if word not in STOP_WORDS and len(word) <= _LONGEST_WORD]
    return [stem(word) for word in kept[:_MOST_WORDS]]


def stem(word: str) -> str:
    """Takes off what most often differs between a question and its answer; not a linguist's stem."""
    word = word.removesuffix("'s")
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("sses", "shes", "ches", "xes"):
        if word.endswith(ending):
            return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and any(letter in "aeiouy" for letter in base):
            is_doubled = base[-1] == base[-2] and base[-1] not in "lsz"
            return (base[:-1] if is_doubled else base).removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word


class WordIndex:
    """Texts by key. Adding one again replaces it."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[str, int]] = {}
        self._terms: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, key: str, text: str) -> None:
        self.discard(key)
        counted = Counter(terms(text))
        self._terms[key] = counted
        self._lengths[key] = length = counted.total()
        self._total += length
        for term, count in counted.items():
            self._postings.setdefault(term, {})[key] = count

    def discard(self, key: str) -> None:
        counted = self._terms.pop(key, None)
        if counted is None:
            return
        self._total -= self._lengths.pop(key)
        for term in counted:
            keys = self._postings[term]
            del keys[key]
            if not keys:
                del self._postings[term]

    def search(self, query: str) -> dict[str, float]:
        """The score of every text that has a word of the query."""
        scores: dict[str, float] = {}
        average = self._total / len(self._terms) if self._terms else 1.0
        for term in dict.fromkeys(terms(query)):
            keys = self._postings.get(term)
            if not keys:
                continue
            rarity = self._rarity(len(keys))
            for key, count in keys.items():
                weight = 1 - _B + _B * self._lengths[key] / average
                gain = rarity * count * (_K1 + 1) / (count + _K1 * weight)
                scores[key] = scores.get(key, 0.0) + gain
        return scores

    def ceiling(self, query: str) -> float:
        """The score of a text that would have every word of the query that anybody has."""
        known = (self._postings.get(term) for term in set(terms(query)))
        return sum(self._rarity(len(keys)) * (_K1 + 1) for keys in known if keys)

    def exact(self, query: str) -> dict[str, float]:
        """Of the words that are meant to the letter, the share that each text has, the rarest counting most."""
        held = {term: self._postings[term] for term in exact_terms(query) if term in self._postings}
        weights = {term: self._rarity(len(keys)) for term, keys in held.items()}
        whole = sum(weights.values())
        shares: dict[str, float] = {}
        for term, keys in held.items():
            for key in keys:
                shares[key] = shares.get(key, 0.0) + weights[term] / whole
        return shares

    def shared(self, key: str, query: str) -> tuple[str, ...]:
        """The words of the query, as they were written, that the text has too."""
        counted: Mapping[str, int] = self._terms.get(key, Counter())
        return tuple(word for word in _written(query) if stem_of(word) in counted)

    def _rarity(self, holders: int) -> float:
        return math.log(1 + (len(self._terms) - holders + 0.5) / (holders + 0.5))


def exact_terms(query: str) -> set[str]:
    """Identifiers and names: what has a digit, or a capital that no beginning of a sentence asks for."""
    query = query[: _MOST_WORDS * 8]
    has_small = any(map(str.islower, query))
    found, end = set(), 0
    for match in _WORD.finditer(query):
        word, between = match.group(), query[end : match.start()]
        begins = not end or any(mark in between for mark in ".!?:\n")
        is_named = has_small and any(map(str.isupper, word[1:] if begins else word))
        if is_named or any(map(str.isdigit, word)):
            found.add(stem_of(word))
        end = match.end()
    return found - {""}


def stem_of(word: str) -> str:
    found = terms(word)
    return found[0] if found else ""


def _written(query: str) -> Iterable[str]:
    seen = dict.fromkeys(match.group() for match in _WORD.finditer(query[: _MOST_WORDS * 8]))
    return (word for word in seen if word.casefold() not in STOP_WORDS)
