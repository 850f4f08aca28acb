"""A step as it is handed over to be recorded, and what of it is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from crucible.errors import BadEntry
from crucible.ledger.canonical import MAX_WHOLE, NotCanonical, Plain, canonical

MAX_FACTS = 4096
MAX_WORD = 200
# Less than what is hashed or exported may have, of which they are a part.
_DEEPEST_FACTS = 6
_RUN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Kind(StrEnum):
    """What a step was. A record may have others, of a later version."""

    SESSION = "session"
    MODEL_CALL = "model-call"
    TOOL_CALL = "tool-call"
    POLICY_DECISION = "policy-decision"
    APPROVAL = "approval"
    HOOK = "hook"
    BUDGET = "budget"
    MEMORY_WRITE = "memory-write"
    COMPACTION = "compaction"
    REWIND = "rewind"
    ERASURE = "erasure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Times are microseconds since 1970, costs millionths of a dollar; None is a cost that nobody knows.

    `facts` stay for good, unlike contents: what somebody wrote or a program printed does not belong there.
    `image` is the image's digest.
    """

    kind: Kind
    started_us: int
    duration_us: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost_micros: int | None = 0
    model: str = ""
    sandbox: str = ""
    image: str = ""
    isolation: str = ""
    exit_status: int | None = None
    facts: Mapping[str, Plain] = field(default_factory=dict)


def check_run(run: str) -> str:
    """A run's name is also that of its files."""
    if not _RUN.fullmatch(run):
        raise BadEntry(
            f"{run[:80]!r} cannot be the name of a run",
            hint="Use at most 64 letters, digits, _ and -",
        )
    return run


def check_step(step: Step) -> dict[str, Plain]:
    """Its fields, checked, as they are hashed."""
    for name in ("started_us", "duration_us", "tokens_in", "tokens_out", "tokens_cached"):
        check_number(name, getattr(step, name))
    if step.cost_micros is not None:
        check_number("cost_micros", step.cost_micros)
    if step.exit_status is not None:
        check_number("exit_status", step.exit_status, least=-MAX_WHOLE)
    return {
        "kind": str(Kind(step.kind)),
        "started_us": step.started_us,
        "duration_us": step.duration_us,
        "tokens_in": step.tokens_in,
        "tokens_out": step.tokens_out,
        "tokens_cached": step.tokens_cached,
        "cost_micros": step.cost_micros,
        "model": check_word("model", step.model),
        "sandbox": check_word("sandbox", step.sandbox),
        "image": check_word("image", step.image),
        "isolation": check_word("isolation", step.isolation),
        "exit_status": step.exit_status,
        "facts": check_facts(step.facts),
    }


def check_facts(facts: Mapping[str, Plain]) -> dict[str, Plain]:
    plain = dict(facts)
    try:
        size = len(canonical(plain, deepest=_DEEPEST_FACTS))
    except NotCanonical as error:
        raise BadEntry(f"These facts cannot be recorded: {error}") from None
    if size > MAX_FACTS:
        raise BadEntry(
            f"Facts of {size} bytes are more than the {MAX_FACTS} that an entry can have",
            hint="Give what is large as input or output",
        )
    return plain


def check_word(name: str, text: str) -> str:
    if len(text) > MAX_WORD or not text.isprintable():
        raise BadEntry(f"{name} is no text of at most {MAX_WORD} printable characters")
    return text


def check_number(name: str, value: int, *, least: int = 0) -> None:
    if type(value) is not int or not least <= value <= MAX_WHOLE:
        raise BadEntry(f"{name} is {str(value)[:40]}, and must be a whole number from {least} on")
