"""How alike two texts are, by the pairs of letters they share: never more work than they are long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONGEST = 300


def nearest(word: str, known: Iterable[str], *, most: int, least: float = 0.5) -> list[str]:
    """Those that are most alike, the best first."""
    wanted = pairs_of(word)
    found = ((likeness(wanted, pairs_of(one)), one) for one in known)
    close = sorted((-value, one) for value, one in found if value >= least)
    return [one for _, one in close[:most]]


def pairs_of(text: str) -> Counter[str]:
    """Letters count without their case; what is at the ends counts, too."""
    whole = f" {text[:LONGEST].lower()} "
    return Counter(whole[index : index + 2] for index in range(len(whole) - 1))


def likeness(one: Counter[str], other: Counter[str]) -> float:
    """From 0 to 1."""
    if len(one) > len(other):
        one, other = other, one
    shared = sum(min(count, other[pair]) for pair, count in one.items())
    return 2 * shared / (one.total() + other.total())
