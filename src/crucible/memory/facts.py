"""What is remembered: one statement about a user, where it comes from, and how long it holds."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["fact", "preference", "goal", "constraint"]
State = Literal["active", "superseded", "expired"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LONGEST_TEXT = 500
LONGEST_QUOTE = 500
LONGEST_ATTRIBUTE = 80
LONGEST_NAME = 200
_DAY_S = 86_400.0
_ATTRIBUTE_LETTERS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who said it where. `quote` is the user's own sentence; empty when it was typed in as a fact."""

    session: str = ""
    turn: int = 0
    quote: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What an extractor found. `attribute` names what it is about: two values of one attribute cannot both hold.

    An attribute has a class before its colon (`home`, `allergy:nuts`). One that `ends` takes back what was said before
    under that attribute and says nothing new.
    """

    text: str
    kind: Kind
    attribute: str = ""
    quote: str = ""
    confidence: float = 0.8
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Times are seconds since 1970; `expires_at` None for what holds until it is replaced."""

    id: str
    user: str
    kind: Kind
    text: str
    attribute: str
    source: Source
    confidence: float
    created_at: float
    updated_at: float
    recalled_at: float | None
    recalls: int
    expires_at: float | None
    is_pinned: bool
    state: State
    superseded_by: str
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long each kind holds without being said again, and how much is kept for one user."""

    ttl_days: dict[Kind, float | None] = field(
        default_factory=lambda: {
            "fact": 730.0,
            "preference": 730.0,
            "goal": 180.0,
            "constraint": None,
        }
    )
    most_facts: int = 10_000
    history_days: float = 365.0
    most_per_turn: int = 12

    def expiry(self, kind: Kind, now: float) -> float | None:
        days = self.ttl_days[kind]
        return None if days is None else now + days * _DAY_S

    def history_begins(self, now: float) -> float:
        return now - self.history_days * _DAY_S


def normal_text(text: str) -> str:
    """On one line, without what a terminal or a prompt would take for more than letters."""
    plain = unicodedata.normalize("NFC", text)
    shown = "".join(letter if letter.isprintable() else " " for letter in plain)
    return " ".join(shown.split())


def normal_attribute(text: str) -> str:
    """`Home City` and `home_city` are one: `home-city`. A colon parts the class from what it is about."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    parts = (_ATTRIBUTE_LETTERS.sub("-", part).strip("-") for part in plain.split(":", 1))
    return ":".join(part for part in parts if part)[:LONGEST_ATTRIBUTE]


def sameness(text: str) -> str:
    """Equal for two texts that say the same in the same words."""
    return " ".join(re.findall(r"[\w+#]+", text.casefold()))
