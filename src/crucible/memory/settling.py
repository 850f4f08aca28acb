"""Whether what is said now is new, was known, or replaces what was said before: decided and written at once."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import Connection

from crucible.memory import records
from crucible.memory.facts import Candidate, Fact, Policy, Source, sameness
from crucible.memory.records import Stored
from crucible.memory.words import terms

Action = Literal["added", "replaced", "confirmed", "ended"]

# Between pairs that contradict each other ("answer in German", "answer in English") and pairs that merely resemble
# each other ("never push to main", "never force-push") all-MiniLM-L6-v2 leaves a gap from 0.61 to 0.72.
_CONTRADICTS = 0.68
_SHARES_WORDS = 0.75
# Each of these names one thing: two of them do not contradict each other, however alike they sound.
_KEY_DECIDES = frozenset(
    (
        "taste",
        "allergy",
        "avoids",
        "diet",
        "has",
        "person",
        "person-role",
        "favourite",
        "own",
        "goal",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A candidate as it is about to be kept; `vector` is None where nothing embeds."""

    candidate: Candidate
    source: Source
    vector: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of one candidate. `before` are the facts that do not hold any more."""

    action: Action
    fact: Fact
    before: tuple[Fact, ...] = ()


def settle(
    connection: Connection,
    user: str,
    said: Sequence[Said],
    *,
    model: str,
    policy: Policy,
    now: float,
) -> list[Change]:
    generation = records.begin_change(connection, user)
    changes: list[Change] = []
    for one in said:
        changes += _settle_one(connection, user, one, model, policy, now, generation)
    return changes


def _settle_one(
    connection: Connection,
    user: str,
    said: Said,
    model: str,
    policy: Policy,
    now: float,
    generation: int,
) -> list[Change]:
    candidate = said.candidate
    found = records.rivals(
        connection, user, text=candidate.text, attribute=candidate.attribute, model=model
    )
    if candidate.ends:
        ended = [one.fact for one in found if one.fact.attribute == candidate.attribute]
        for fact in ended:
            records.change(connection, fact.id, _over("", now), generation)
        return [Change(action="ended", fact=fact) for fact in ended]
    for stored in found:
        if sameness(stored.fact.text) == sameness(candidate.text):
            return [_confirm(connection, stored.fact, said, policy, now, generation)]
    replaced = tuple(one.fact for one in found if _is_replaced(one, said))
    fact = _new_fact(user, said, policy, now)
    # Who pinned the old wants to have the new as well.
    fact = replace(fact, is_pinned=any(old.is_pinned for old in replaced))
    records.add(connection, fact, vector=said.vector, model=model, generation=generation)
    for old in replaced:
        records.change(connection, old.id, _over(fact.id, now), generation)
    return [Change(action="replaced" if replaced else "added", fact=fact, before=replaced)]


def _confirm(
    connection: Connection, fact: Fact, said: Said, policy: Policy, now: float, generation: int
) -> Change:
    confidence = max(fact.confidence, said.candidate.confidence)
    expires_at = policy.expiry(fact.kind, now)
    values = {"updated_at": now, "confidence": confidence, "expires_at": expires_at}
    records.change(connection, fact.id, values, generation)
    known = replace(fact, updated_at=now, confidence=confidence, expires_at=expires_at)
    return Change(action="confirmed", fact=known)


def _is_replaced(old: Stored, said: Said) -> bool:
    candidate, fact = said.candidate, old.fact
    if candidate.attribute and fact.attribute == candidate.attribute:
        return True
    family = candidate.attribute.partition(":")[0]
    if fact.kind != candidate.kind or fact.attribute.partition(":")[0] != family:
        return False
    if family in _KEY_DECIDES:
        return False
    shared = _shared(fact.text, candidate.text)
    if old.vector is None or said.vector is None:
        return shared >= _SHARES_WORDS
    return shared > 0 and similarity(old.vector, said.vector) >= _CONTRADICTS


def similarity(one: bytes, other: bytes) -> float:
    if len(one) != len(other):
        return 0.0
    form = f"<{len(one) // 4}f"
    pairs = zip(struct.unpack(form, one), struct.unpack(form, other), strict=True)
    return float(sum(a * b for a, b in pairs))


def _shared(one: str, other: str) -> float:
    first, second = set(terms(one)), set(terms(other))
    return len(first & second) / len(first | second) if first | second else 0.0


def _over(by: str, now: float) -> dict[str, object]:
    return {"state": "superseded", "superseded_by": by, "updated_at": now, "is_pinned": False}


def _new_fact(user: str, said: Said, policy: Policy, now: float) -> Fact:
    candidate = said.candidate
    return Fact(
        id=new_id(),
        user=user,
        kind=candidate.kind,
        text=candidate.text,
        attribute=candidate.attribute,
        source=said.source,
        confidence=candidate.confidence,
        created_at=now,
        updated_at=now,
        recalled_at=None,
        recalls=0,
        expires_at=policy.expiry(candidate.kind, now),
        is_pinned=False,
        state="active",
        superseded_by="",
    )


def new_id() -> str:
    return f"mem_{secrets.token_hex(8)}"
