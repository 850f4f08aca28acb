"""Finds what a user says about themselves without any model: sentence by sentence, by fixed phrases.

Precise rather than complete: what is asked, supposed, denied, quoted or said of others makes no fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crucible.memory.facts import Candidate, normal_attribute
from crucible.memory.phrases import PHRASES, Phrase
from crucible.memory.sentences import sentences
from crucible.memory.words import terms

_MOST_FACTS = 50
_LONGEST_VALUE_WORDS = 24
_LONGEST_KEY_WORDS = 4

_ASKS = re.compile(
    r"(?:what|when|where|which|who|whom|whose|why|how|do|does|did|is|are|am|was|were|can|could|would|will|shall|"
    r"should|may|might|has|have|had)\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:if|unless|suppos(?:e|ing)|imagine|pretend|assum(?:e|ing)|hypothetically|let's say|say i|as though|"
    r"what if|for (?:example|instance)|e\.g|"
    r"wish(?:ed)?|would have|could have|might|maybe|perhaps|probably|possibly|not sure|i guess|i think i|used to|"
    r"someone|somebody|anyone|"
    r"character|in (?:the|my|a) (?:story|novel|game|book|example|test|dream)|act as|role-?play|joking|kidding|"
    r"lorem)\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\b(?:he|she|they|it|who|that|which|customers?|clients?|users?|people|everyone|(?:my|the|our|a) [\w-]+) "
    r"(?:\w+ )?"
    r"(?:says?|said|claims?|claimed|thinks?|thought|told|writes?|wrote|reads?|asks?|asked|believes?|complains?|"
    r"complained|states?|replied|answers?|answered)\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:i(?:'m| am) not|i (?:didn't|did not|haven't|have not|hadn't|wasn't|was not|wouldn't|never (?:said|"
    r"lived|worked|was|liked))|it(?:'s| is) not true|not that)\b",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(r"\b(?:no longer|any ?more|not allergic)\b", re.IGNORECASE)
_CLAUSES = re.compile(
    r"\s*(?:;|\s[–—-]\s|,?\s(?:but|and|although|though|while|whereas|so)\s(?=(?:i|i'm|i've|my|please|always|"
    r"never|from now on|call)\b)"
    r"|,\s(?=(?:i|i'm|i've|my|please|call me)\b))",
    re.IGNORECASE,
)
_ADDRESSES = re.compile(
    r"^(?:(?:hi|hello|hey|hey there|ok|okay|so|well|by the way|btw|fyi|also|and|but|oh|actually|yes|no|yeah|"
    r"thanks|thank you|just so you know|"
    r"for (?:your information|the record|context)|as i said|to be clear|quick note|note)\b[\s,:!.-]*)+(?=\S)",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s*(?:,?\s(?:because|since|as i|so that|when|which|who|where|whenever|in order to|thanks|please|btw|by the "
    r"way|too|as well|though|actually|anyway|again)\b.*"
    r"|,\s(?:can|could|what|how|so|and)\b.*|\s\(.*)$",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"[\s,]+(?:now|nowadays|these days|at the moment|currently|right now|recently|today|yesterday|this (?:week|"
    r"month|year)|last (?:week|month|year|summer|winter)"
    r"|next (?:week|month|year)|(?:a|two|three|a few) (?:days?|weeks?|months?|years?) ago|in (?:january|february|"
    r"march|april|may|june|july|august|september"
    r"|october|november|december)(?: \d{4})?|in \d{4}|since .*|for (?:work|\w+ years?|now)|with (?:my|our) .*|"
    r"as an? .*|from .*)$",
    re.IGNORECASE,
)
_INSTEAD_OF = re.compile(r",? (?:and )?(?:not|instead of|rather than)\b.*$", re.IGNORECASE)
_COMMON = re.compile(r"(?:an?|the|their|our|another|next|new)\b", re.IGNORECASE)
_POINTS = re.compile(
    r"(?:it|this|that|these|those|them|there|here|him|her|you|your|the (?:following|above|below|same|idea|way|"
    r"fact|first|second|last|latter|former|code|file|error|output|result|function|test)"
    r"|how|what|when|where|why|to (?:know|see|ask|understand|get|have|do|be|make|use|add|run|fix|change)|"
    r"something|anything|everything|nothing|one|both|so)\b",
    re.IGNORECASE,
)


class RuleExtractor:
    """Needs no model and no network."""

    async def extract(self, words: str) -> Sequence[Candidate]:
        return find_facts(words)


def find_facts(words: str) -> list[Candidate]:
    found: dict[str, Candidate] = {}
    for sentence in sentences(words.replace("’", "'")):
        for clause in _clauses(sentence):
            candidate = _match(clause, sentence)
            if candidate is not None:
                found.setdefault(candidate.text, candidate)
            if len(found) >= _MOST_FACTS:
                return list(found.values())
    return list(found.values())


def _clauses(sentence: str) -> list[str]:
    """None of a sentence that states nothing."""
    stated = _ADDRESSES.sub("", sentence.strip())
    if stated.endswith("?") or _ASKS.match(stated):
        return []
    if _SUPPOSES.search(stated) or _REPORTS.search(stated):
        return []
    if not stated.endswith((".", "!", "…")) and stated.endswith(":"):
        return []
    pieces = _CLAUSES.split(stated.rstrip(".!…; "))
    return [_ADDRESSES.sub("", piece.strip(" ,")) for piece in pieces if piece and piece.strip()]


def _match(clause: str, sentence: str) -> Candidate | None:
    if _DENIES.search(clause) and not _TAKES_BACK.search(clause):
        return None
    for phrase in PHRASES:
        match = phrase.pattern.match(clause)
        if match is not None:
            return _candidate(phrase, match, sentence, clause)
    return None


def _candidate(
    phrase: Phrase, match: re.Match[str], sentence: str, clause: str
) -> Candidate | None:
    groups = {name: text for name, text in match.groupdict().items() if text}
    groups.setdefault("value", groups.get("other", ""))
    groups["value"] = _cut(groups["value"], is_place=phrase.is_place)
    if "other" in groups:
        groups["other"] = _cut(groups["other"], is_place=False)
    if not phrase.ends and not _says_something(groups["value"]):
        return None
    if phrase.is_name and not _is_name(groups["value"], clause):
        return None
    text = _fill(phrase.text, groups)
    return Candidate(
        text=text[:1].upper() + text[1:],
        kind=phrase.kind,
        attribute=normal_attribute(_fill(phrase.attribute, groups)),
        quote=sentence,
        confidence=phrase.confidence,
        ends=phrase.ends,
    )


def _cut(value: str, *, is_place: bool) -> str:
    value = _TAIL.sub("", value).strip(" ,.!;:'\"")
    if is_place:
        value = _INSTEAD_OF.sub("", value)
        shorter = _WHEN.sub("", value)
        while shorter != value:
            value, shorter = shorter, _WHEN.sub("", shorter)
    return re.sub(r"\bmy\b", "their", value, flags=re.IGNORECASE)


def _says_something(value: str) -> bool:
    if not value or _POINTS.match(value):
        return False
    return len(value.split()) <= _LONGEST_VALUE_WORDS and any(letter.isalnum() for letter in value)


def _is_name(value: str, clause: str) -> bool:
    """Of who writes without capitals, whatever no article stands before."""
    if _COMMON.match(value) or any(letter.isdigit() for letter in value):
        return False
    return value[:1] != value[:1].lower() or clause == clause.lower() or not value[:1].isascii()


def _fill(form: str, groups: dict[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        name, _, how = match.group(1).partition(":")
        text = groups.get(name, "")
        match how:
            case "key":
                return "-".join(terms(text)[:_LONGEST_KEY_WORDS])
            case "title":
                return text.capitalize()
            case "about":
                return _of_the_user(text)
            case _:
                return text

    return re.sub(r"\{([a-z:]+)\}", put, form)


def _of_the_user(text: str) -> str:
    """What they say of themselves, as others say it of them."""
    turned = re.sub(r"\bmy\b", "their", text, flags=re.IGNORECASE)
    turned = re.sub(r"^i(?:'m| am)\b", "Is", turned, flags=re.IGNORECASE)
    turned = re.sub(r"^i have\b", "Has", turned, flags=re.IGNORECASE)
    return f"The user said: {text}" if re.search(r"\bi\b", turned, re.IGNORECASE) else turned
