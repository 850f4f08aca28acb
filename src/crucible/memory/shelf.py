"""The active facts of one user in memory, to be searched by words and by vectors at once.

It follows the database by generation: what changed is read again, and everything only after something was erased.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from crucible.memory import records
from crucible.memory.facts import Fact
from crucible.memory.words import WordIndex

if TYPE_CHECKING:
    import numpy

_MOST_USERS = 16
_FIRST_ROWS = 256
# What all words of a question together add to a similarity: enough to tell two alike apart, too little to drown it.
_WORDS_WEIGHT = 0.2
# What names and identifiers add: to vectors, HK-7741-B and HK-7714-A are the same.
_EXACT_WEIGHT = 0.3
_MOST_BY_WORDS = 500
# Between statements and questions that have nothing to do with each other the model finds 0.1 and less.
_LEAST_SIMILARITY = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """`similarity` is None where vectors were not compared; `words` are those of the question that the fact has."""

    fact: Fact
    score: float
    similarity: float | None
    words: tuple[str, ...]


class Shelf:
    """Used by one thread at a time: hold `lock`."""

    def __init__(self, user: str, model: str) -> None:
        self.lock = threading.Lock()
        self.facts: dict[str, Fact] = {}
        self._user = user
        self._model = model
        self._generation = 0
        self._words = WordIndex()
        self._vectors = _Vectors() if model else None

    def follow(self, connection: Connection) -> records.Standing:
        standing = records.standing(connection, self._user)
        if standing.erased > self._generation:
            self._clear()
        if standing.generation > self._generation:
            changed = records.changed_since(connection, self._user, self._generation, self._model)
            for stored in changed:
                self._take(stored)
            self._generation = standing.generation
        return standing

    def without_vector(self) -> list[Fact]:
        if self._vectors is None or len(self._vectors) == len(self.facts):
            return []
        return [fact for fact in self.facts.values() if fact.id not in self._vectors]

    def search(self, query: str, vector: bytes | None, *, most: int, now: float) -> list[Hit]:
        """The best first. What has expired is not found, even if nobody has cleared it away yet."""
        ceiling = self._words.ceiling(query)
        by_words = self._words.search(query) if ceiling else {}
        # Common words are in thousands of facts: those with the most of them will do.
        best_words = nlargest(_MOST_BY_WORDS, by_words, key=by_words.__getitem__)
        scores = {key: _WORDS_WEIGHT * by_words[key] / ceiling for key in best_words}
        exact = self._words.exact(query)
        for key in nlargest(_MOST_BY_WORDS, exact, key=exact.__getitem__):
            scores[key] = scores.get(key, 0.0) + _EXACT_WEIGHT * exact[key]
        near: dict[str, float] = {}
        if vector is not None and self._vectors is not None:
            near = self._vectors.nearest(vector, most, also=scores)
            for key, similarity in near.items():
                if key in scores or similarity >= _LEAST_SIMILARITY:
                    scores[key] = scores.get(key, 0.0) + max(similarity, 0.0)
        live = (key for key in scores if _holds(self.facts[key], now))
        best = sorted(live, key=lambda key: (-scores[key], key))[:most]
        return [
            Hit(
                fact=self.facts[key],
                score=scores[key],
                similarity=near.get(key),
                words=self._words.shared(key, query) if key in by_words else (),
            )
            for key in best
        ]

    def pinned(self, now: float) -> list[Fact]:
        return [fact for fact in self.facts.values() if fact.is_pinned and _holds(fact, now)]

    def _take(self, stored: records.Stored) -> None:
        fact = stored.fact
        if fact.state != "active":
            self._drop(fact.id)
            return
        self.facts[fact.id] = fact
        self._words.add(fact.id, fact.text)
        if self._vectors is not None:
            if stored.vector is None:
                self._vectors.discard(fact.id)
            else:
                self._vectors.put(fact.id, stored.vector)

    def _drop(self, key: str) -> None:
        self.facts.pop(key, None)
        self._words.discard(key)
        if self._vectors is not None:
            self._vectors.discard(key)

    def _clear(self) -> None:
        self.facts.clear()
        self._words = WordIndex()
        self._vectors = _Vectors() if self._model else None
        self._generation = 0


class Shelves:
    """Of the users who were asked about last."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, user: str) -> Shelf:
        with self._lock:
            shelf = self._shelves.pop(user, None) or Shelf(user, self._model)
            self._shelves[user] = shelf
            while len(self._shelves) > _MOST_USERS:
                self._shelves.popitem(last=False)
            return shelf

    def drop(self, user: str) -> None:
        with self._lock:
            self._shelves.pop(user, None)


def _holds(fact: Fact, now: float) -> bool:
    return fact.is_pinned or fact.expires_at is None or fact.expires_at > now


class _Vectors:
    """Rows of one matrix; those that are free are zero, and so are near nothing."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        self._free: list[int] = []
        self._matrix: numpy.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def put(self, key: str, data: bytes) -> None:
        import numpy

        vector = numpy.frombuffer(data, dtype="<f4")
        if self._matrix is None:
            self._matrix = numpy.zeros((_FIRST_ROWS, vector.size), dtype="<f4")
        row = self._rows.get(key)
        if row is None:
            row = self._free.pop() if self._free else len(self._keys)
            if row == len(self._keys):
                self._keys.append(key)
            self._keys[row] = key
            self._rows[key] = row
        if row >= len(self._matrix):
            self._matrix = numpy.concatenate((self._matrix, numpy.zeros_like(self._matrix)))
        self._matrix[row] = vector

    def discard(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is not None and self._matrix is not None:
            self._matrix[row] = 0.0
            self._keys[row] = ""
            self._free.append(row)

    def nearest(self, data: bytes, most: int, *, also: Iterable[str]) -> dict[str, float]:
        import numpy

        if self._matrix is None:
            return {}
        found = self._matrix[: len(self._keys)] @ numpy.frombuffer(data, dtype="<f4")
        rows = set(numpy.argpartition(-found, min(most, len(found) - 1))[: most + 1].tolist())
        rows.update(self._rows[key] for key in also if key in self._rows)
        return {self._keys[row]: float(found[row]) for row in rows if self._keys[row]}
