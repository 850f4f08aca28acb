"""What may be kept at all: checked before anything is written, whoever found it or typed it in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from crucible.errors import MemoryRefused, SecretRefused
from crucible.memory.facts import (
    KINDS,
    LONGEST_NAME,
    LONGEST_QUOTE,
    LONGEST_TEXT,
    Candidate,
    normal_attribute,
    normal_text,
)
from crucible.memory.secrecy import is_secret
from crucible.memory.sentences import own_words, sentences
from crucible.memory.words import terms

LEAST_CONFIDENCE = 0.5


def speakable(user_text: str) -> str:
    """The user's own words without sentences that hold a secret: all that an extractor is shown."""
    words = own_words(user_text)
    # A key may have dots and spaces around it: whoever writes one is looked at as a whole paragraph.
    kept = [line for line in words.split("\n") if not is_secret(line)]
    said = (sentence for sentence in sentences("\n".join(kept)) if not is_secret(sentence))
    return "\n".join(said)


def keepable(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """Those of an extractor that may be kept; the rest is dropped without a word."""
    found: dict[tuple[str, bool], Candidate] = {}
    for candidate in candidates:
        if len(found) >= most:
            break
        try:
            vetted = vet(candidate)
        except (MemoryRefused, SecretRefused):
            continue
        if vetted.confidence >= LEAST_CONFIDENCE:
            found.setdefault((vetted.text.casefold(), vetted.ends), vetted)
    return list(found.values())


def vet(candidate: Candidate) -> Candidate:
    text, quote = normal_text(candidate.text), normal_text(candidate.quote)
    if not text or (not terms(text) and not candidate.ends):
        raise MemoryRefused("There is nothing in it to remember")
    if len(text) > LONGEST_TEXT:
        raise MemoryRefused(
            f"It has {len(text)} letters; a memory has at most {LONGEST_TEXT}",
            hint="Say it shorter, or as several",
        )
    if candidate.kind not in KINDS:
        raise MemoryRefused(
            f"{str(candidate.kind)[:40]!r} is no kind of memory", hint=f"One of: {', '.join(KINDS)}"
        )
    if is_secret(text) or is_secret(quote):
        raise SecretRefused
    if not 0 <= candidate.confidence <= 1:
        raise MemoryRefused(f"A confidence lies between 0 and 1, not at {candidate.confidence!r}")
    return replace(
        candidate,
        text=text,
        quote=quote[:LONGEST_QUOTE],
        attribute=normal_attribute(candidate.attribute),
    )


def check_name(name: str, what: str) -> str:
    """Of a user or a session: any text that a database can hold and a terminal can show."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise MemoryRefused(f"{name[:80]!r} is no name of a {what}")
    return name
