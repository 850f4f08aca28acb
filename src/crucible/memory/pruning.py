"""What is cleared away by itself: the expired, the least worth beyond the limit, old history; nothing pinned."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from crucible.memory import records
from crucible.memory.facts import Fact, Policy

_DAY_S = 86_400.0
_HALVED_AFTER_S = 90 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """`expired` stay as history for a while; `erased` were history too old to keep, or beyond the limit."""

    expired: tuple[Fact, ...]
    erased: tuple[Fact, ...]


def prune(connection: Connection, user: str, policy: Policy, now: float) -> Pruned:
    generation = records.begin_change(connection, user)
    active = records.read_all(connection, user, ("active",))
    expired = [fact for fact in active if _is_over(fact, now)]
    for fact in expired:
        records.change(connection, fact.id, {"state": "expired"}, generation)
    left = sorted(
        (fact for fact in active if not _is_over(fact, now)),
        key=lambda fact: (fact.is_pinned, worth(fact, now)),
    )
    surplus = [fact for fact in left[: max(0, len(left) - policy.most_facts)] if not fact.is_pinned]
    past = records.read_all(connection, user, ("superseded", "expired"))
    erased = [*surplus, *(old for old in past if old.updated_at < policy.history_begins(now))]
    return Pruned(expired=tuple(expired), erased=tuple(erased))


def worth(fact: Fact, now: float) -> float:
    """Surer, more often asked for, and more recent is worth more."""
    seen_at = max(fact.updated_at, fact.recalled_at or 0.0)
    age: float = 0.5 ** (max(0.0, now - seen_at) / _HALVED_AFTER_S)
    return fact.confidence * (1 + min(fact.recalls, 20) / 5) * age


def _is_over(fact: Fact, now: float) -> bool:
    return not fact.is_pinned and fact.expires_at is not None and fact.expires_at <= now
