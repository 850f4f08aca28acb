"""What is known of a user as JSON that they can take away, and such a file read back. It may come from anybody."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crucible.errors import MemoryRefused, SecretRefused
from crucible.memory.facts import KINDS, LONGEST_NAME, Candidate, Fact, Source
from crucible.memory.settling import Change
from crucible.memory.vetting import vet

FORMAT = 1
_MOST_LISTED = 100_000
_MOST_TURNS = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`left_out` counts what was no memory, held a secret, or was history."""

    changes: tuple[Change, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    candidate: Candidate
    source: Source
    is_pinned: bool


def exported(user: str, facts: Sequence[Fact], is_enabled: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "user": user,
        "enabled": is_enabled,
        "facts": [as_json(fact) for fact in facts],
    }


def as_json(fact: Fact) -> dict[str, Any]:
    """As every door shows it; times are in UTC."""
    return {
        "id": fact.id,
        "kind": fact.kind,
        "text": fact.text,
        "attribute": fact.attribute,
        "state": fact.state,
        "superseded_by": fact.superseded_by or None,
        "pinned": fact.is_pinned,
        "confidence": round(fact.confidence, 3),
        "source": {
            "session": fact.source.session or None,
            "turn": fact.source.turn if fact.source.session else None,
            "quote": fact.source.quote or None,
        },
        "created_at": _moment(fact.created_at),
        "updated_at": _moment(fact.updated_at),
        "recalled_at": _moment(fact.recalled_at),
        "recalls": fact.recalls,
        "expires_at": _moment(fact.expires_at),
    }


def read(value: object, most: int) -> tuple[list[Read], int]:
    """What of an export can be kept, and how many cannot."""
    listed = value.get("facts") if isinstance(value, Mapping) else None
    if (
        not isinstance(value, Mapping)
        or value.get("format") != FORMAT
        or not isinstance(listed, list)
    ):
        raise MemoryRefused(
            "This is no export of memories", hint="Make one with `crucible memory export`"
        )
    if len(listed) > _MOST_LISTED:
        raise MemoryRefused(f"It lists {len(listed)} memories; at most {_MOST_LISTED} are read")
    found = [one for one in map(_read, listed) if one is not None][:most]
    return found, len(listed) - len(found)


def _read(value: object) -> Read | None:
    if not isinstance(value, Mapping) or value.get("state", "active") != "active":
        return None
    text, kind, attribute = value.get("text"), value.get("kind"), value.get("attribute", "")
    chosen = next((known for known in KINDS if known == kind), None)
    if not isinstance(text, str) or not isinstance(attribute, str) or chosen is None:
        return None
    confidence = value.get("confidence", 1.0)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        return None
    try:
        candidate = vet(
            Candidate(text=text, kind=chosen, attribute=attribute, confidence=float(confidence))
        )
    except (MemoryRefused, SecretRefused):
        return None
    return Read(
        candidate=candidate,
        source=_source(value.get("source")),
        is_pinned=value.get("pinned") is True,
    )


def _source(value: object) -> Source:
    """Without its quote: nobody has checked that this user said it."""
    if not isinstance(value, Mapping):
        return Source()
    session, turn = value.get("session"), value.get("turn")
    if not isinstance(session, str) or len(session) > LONGEST_NAME or not session.isprintable():
        return Source()
    is_turn = isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn < _MOST_TURNS
    return Source(session=session, turn=turn if is_turn else 0)  # type: ignore[arg-type]


def _moment(at: float | None) -> str | None:
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
