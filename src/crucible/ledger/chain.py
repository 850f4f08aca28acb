"""What is hashed and signed: the opening of a run, its entries, each bound to the one before, and the heads.

Version 1 of the encoding, specified in docs/guides/ledger.md. It is never changed; another would be version 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from crucible.ledger.canonical import Plain, canonical

VERSION = 1
HEAD_TYPE = "application/vnd.crucible.ledger-head.v1+json"
_OPENING = b"crucible-ledger-run-v1\n"
_ENTRY = b"crucible-ledger-entry-v1\n"

# Of an entry, all that is under its hash.
HASHED = (
    "run", "number", "kind", "started_us", "duration_us", "tokens_in", "tokens_out",
    "tokens_cached", "cost_micros", "model", "sandbox", "image", "isolation", "exit_status",
    "input", "output", "facts", "previous",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The beginning of a run. Its hash is what the first entry is bound to."""

    run: str
    opened_us: int
    user: str
    facts: Mapping[str, Plain]
    key: str
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step, recorded. `input` and `output` name contents; None is a step that has none."""

    run: str
    number: int
    kind: str
    started_us: int
    duration_us: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost_micros: int | None
    model: str
    sandbox: str
    image: str
    isolation: str
    exit_status: int | None
    input: str | None
    output: str | None
    facts: Mapping[str, Plain]
    previous: str
    hash: str
    signature: str
    version: int = VERSION

    @property
    def ended_us(self) -> int:
        return self.started_us + self.duration_us


def opening_fields(opening: Opening) -> dict[str, Plain]:
    return {
        "v": opening.version,
        "run": opening.run,
        "opened_us": opening.opened_us,
        "user": opening.user,
        "facts": dict(opening.facts),
        "key": opening.key,
    }


def hash_opening(fields: Mapping[str, object]) -> str:
    return hashlib.sha256(_OPENING + canonical(fields)).hexdigest()


def hash_entry(fields: Mapping[str, object]) -> str:
    """Of `v` and all that is `HASHED`. Takes whatever a database gives: what is odd hashes to something else."""
    return hashlib.sha256(_ENTRY + canonical(fields)).hexdigest()


def head_statement(run: str, count: int, last: str) -> bytes:
    """What is signed for each entry: that the run has so many, and that this one is the last of them."""
    return canonical({"v": VERSION, "run": run, "count": count, "hash": last})
