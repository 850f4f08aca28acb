"""Which contents are to go, and how an entry says so: `verify` takes as erased only what such an entry names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from crucible.errors import RunMissing
from crucible.ledger import rows
from crucible.ledger.canonical import Plain
from crucible.store.tables import ledger as tables

# As many as an entry's facts hold, whatever their numbers.
_IN_ONE_ENTRY = 150
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`places` are like `12i` and `12o`: input and output of entry 12. `known` are all that the run's entries name."""

    names: frozenset[str]
    places: tuple[str, ...]
    known: set[str]
    is_all: bool


def find(connection: Connection, *, run: str, names: set[str] | None) -> Found:
    if rows.run_row(connection, run) is None:
        raise RunMissing(run)
    columns = tables.entries.c
    query = select(columns.number, columns.input, columns.output).where(columns.run == run)
    chosen: list[tuple[str, str]] = []
    known: set[str] = set()
    for row in connection.execute(query.order_by(columns.number)):
        for letter, name in (("i", row.input), ("o", row.output)):
            if name is not None:
                known.add(name)
                if names is None or name in names:
                    chosen.append((f"{row.number}{letter}", name))
    return Found(
        names=frozenset(name for _, name in chosen),
        places=tuple(place for place, _ in chosen),
        known=known,
        is_all=names is None,
    )


def facts_of(found: Found, reason: str) -> Iterator[dict[str, Plain]]:
    """One entry's facts after another; none if there is nothing to erase."""
    if found.is_all and found.places:
        yield {"erased": ALL, "reason": reason}
        return
    for start in range(0, len(found.places), _IN_ONE_ENTRY):
        places: list[Plain] = list(found.places[start : start + _IN_ONE_ENTRY])
        yield {"erased": places, "reason": reason}


class Erased:
    """What the erasures of a chain name, taken in as they come."""

    def __init__(self) -> None:
        self._up_to = 0
        self._places: set[str] = set()

    def take(self, number: int, facts: Mapping[str, object]) -> None:
        erased = facts.get("erased")
        if erased == ALL:
            self._up_to = number
        elif isinstance(erased, Iterable):
            self._places.update(place for place in erased if isinstance(place, str))

    def has(self, number: int, letter: str) -> bool:
        return number <= self._up_to or f"{number}{letter}" in self._places
