"""Forgetting for good: a statement goes from its row, its vector, the sentences it was taken from, and from summaries.

What the ledger keeps of it is a hash. Contents in blobs are erased by who keeps them; this says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select, update

from crucible.memory import records, traces
from crucible.memory.facts import Fact
from crucible.memory.words import terms
from crucible.store.tables.memory import memory_facts as facts
from crucible.store.tables.memory import memory_summaries as summaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """`sessions` are the conversations whose summaries must be made again. `blobs` are to be erased."""

    facts: tuple[str, ...]
    sessions: tuple[str, ...]
    blobs: tuple[str, ...]


def forget(connection: Connection, user: str, gone: Sequence[Fact]) -> Forgotten:
    if not gone:
        return Forgotten(facts=(), sessions=(), blobs=())
    generation = records.begin_change(connection, user)
    ids = [fact.id for fact in gone]
    # Read again within the transaction: a blob may have been attached since.
    stored = select(facts.c.blobs).where(facts.c.user_id == user, facts.c.id.in_(ids))
    blobs = [name for names in connection.execute(stored).scalars() for name in names]
    records.erase(connection, user, ids, generation)
    telling = {term for fact in gone for term in traces.telling(fact)}
    _clear_quotes(connection, user, gone, telling)
    sessions, more = _clear_summaries(connection, user, gone, telling)
    return Forgotten(
        facts=tuple(ids), sessions=sessions, blobs=tuple(dict.fromkeys((*blobs, *more)))
    )


def history_of(connection: Connection, user: str, fact: Fact) -> list[Fact]:
    """What it replaced, and what those replaced, the newest first."""
    found: dict[str, Fact] = {}
    wanted = [fact.id]
    while wanted:
        chosen = select(facts.c.id).where(
            facts.c.user_id == user, facts.c.superseded_by.in_(wanted)
        )
        ids = [name for name in connection.execute(chosen).scalars() if name not in found]
        before = [records.find(connection, user, name) for name in ids]
        found.update({one.id: one for one in before if one is not None})
        wanted = ids
    return sorted(found.values(), key=lambda one: -one.created_at)


def _clear_quotes(
    connection: Connection, user: str, gone: Sequence[Fact], telling: set[str]
) -> None:
    """One sentence may have given two facts: what is left keeps its statement and loses the sentence."""
    turns = {(fact.source.session, fact.source.turn) for fact in gone if fact.source.quote}
    chosen = select(facts.c.id, facts.c.session, facts.c.turn, facts.c.quote).where(
        facts.c.user_id == user, facts.c.quote != ""
    )
    cleared = [
        row.id
        for row in connection.execute(chosen)
        if (row.session, row.turn) in turns or telling & set(terms(row.quote))
    ]
    for start in range(0, len(cleared), 500):
        part = cleared[start : start + 500]
        connection.execute(update(facts).where(facts.c.id.in_(part)).values(quote=""))


def _clear_summaries(
    connection: Connection, user: str, gone: Sequence[Fact], telling: set[str]
) -> tuple[tuple[str, ...], list[str]]:
    """A summary is made again from the conversation, so one too many costs little."""
    sessions = {fact.source.session for fact in gone if fact.source.session}
    chosen = select(summaries.c.session, summaries.c.text, summaries.c.blobs).where(
        or_(summaries.c.user_id == user, summaries.c.session.in_(sessions))
    )
    cleared: list[str] = []
    blobs: list[str] = []
    for row in connection.execute(chosen):
        if row.session in sessions or telling & set(terms(row.text)):
            cleared.append(row.session)
            blobs += row.blobs
    blank = update(summaries).where(summaries.c.session.in_(cleared))
    connection.execute(blank.values(text="", covers=0, is_stale=True, blobs=[]))
    return tuple(cleared), blobs
