"""Whether a record is the one that was signed: of a run in the database, or in an export. What both have in common.

Nothing here trusts what it reads. Each entry is hashed anew, and must follow the one before and be signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crucible.ledger.canonical import NotCanonical
from crucible.ledger.chain import HEAD_TYPE, VERSION, hash_entry, head_statement
from crucible.ledger.contents import BadContent, open_file
from crucible.ledger.envelope import BadEnvelope, pre_authentication, unbase64
from crucible.ledger.erasing import Erased
from crucible.ledger.keys import PublicKey
from crucible.ledger.steps import Kind

# More would tell nobody more.
MOST_FINDINGS = 20


class Problem(StrEnum):
    RUN_CHANGED = "run-changed"
    ENTRY_CHANGED = "entry-changed"
    ENTRY_MISSING = "entry-missing"
    ENTRY_UNSIGNED = "entry-unsigned"
    FOREIGN_KEY = "foreign-key"
    TRUNCATED = "truncated"
    HEAD_MISSING = "head-missing"
    HEAD_CHANGED = "head-changed"
    CONTENT_CHANGED = "content-changed"
    CONTENT_MISSING = "content-missing"
    MANIFEST_CHANGED = "manifest-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `entry` is the first number it concerns; None is the record as a whole."""

    problem: Problem
    entry: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`is_whole` if nothing was found. Findings come in the order of the entries, those of the whole record last.

    Contents that were `erased` are no finding; those that are `absent` are not part of an export. `head_behind` entries
    came after the head that is kept apart: more than none after a process died, until the next entry. `unfinished`
    are contents of which an entry says that they were erased, and which are still there.
    """

    run: str
    count: int
    key: str
    findings: tuple[Finding, ...]
    kept: int = 0
    erased: int = 0
    absent: int = 0
    unfinished: int = 0
    head_behind: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.findings


class Findings:
    """Bounded, and sorted in the end."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(self, problem: Problem, entry: int | None, detail: str) -> None:
        if len(self._found) < MOST_FINDINGS:
            self._found.append(Finding(problem=problem, entry=entry, detail=detail))

    def sorted(self) -> tuple[Finding, ...]:
        return tuple(sorted(self._found, key=_rank))

    def __len__(self) -> int:
        return len(self._found)


def _rank(found: Finding) -> tuple[int, int]:
    if found.problem is Problem.FOREIGN_KEY:
        return 0, 0
    return (2, 0) if found.entry is None else (1, found.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A content that an entry names."""

    number: int
    letter: str
    name: str


class Chain:
    """Takes the entries of a run one after the other, and finds what does not fit."""

    def __init__(self, run: str, first: str, key: PublicKey, findings: Findings) -> None:
        self.count = 0
        self.last = first
        self.named: list[Named] = []
        self.erased = Erased()
        self._run = run
        self._key = key
        self._findings = findings

    def take(self, fields: Mapping[str, Any], own_hash: object, signature: object) -> None:
        """`fields` are what is under the hash, as `rows.hashed_fields` gives them."""
        expected = self.count + 1
        number = fields["number"]
        if type(number) is not int or number < expected:
            self._findings.add(
                Problem.ENTRY_CHANGED, expected, f"an entry says to be number {number!r}"
            )
            return
        if number > expected:
            missing = f"{expected}" if number == expected + 1 else f"{expected} to {number - 1}"
            self._findings.add(Problem.ENTRY_MISSING, expected, f"there is no entry {missing}")
        elif fields["previous"] != self.last:
            before = "the entry before it" if self.count else "the opening of the run"
            self._findings.add(Problem.ENTRY_CHANGED, number, f"it does not follow {before}")
        self._check(number, fields, own_hash, signature)
        self.count = number
        self.last = own_hash if isinstance(own_hash, str) else ""
        self._note(number, fields)

    def _check(
        self, number: int, fields: Mapping[str, Any], own_hash: object, signature: object
    ) -> None:
        try:
            found = hash_entry(fields)
        except NotCanonical:
            found = ""
        if fields["v"] != VERSION or fields["run"] != self._run or found != own_hash:
            self._findings.add(
                Problem.ENTRY_CHANGED, number, "what it says does not have the hash it says"
            )
        elif not is_signed(self._key, self._run, number, found, signature):
            self._findings.add(
                Problem.ENTRY_UNSIGNED, number, "its signature does not fit, or is of another key"
            )

    def _note(self, number: int, fields: Mapping[str, Any]) -> None:
        for letter, name in (("i", fields["input"]), ("o", fields["output"])):
            if isinstance(name, str):
                self.named.append(Named(number=number, letter=letter, name=name))
        if fields["kind"] == Kind.ERASURE and isinstance(fields["facts"], dict):
            self.erased.take(number, fields["facts"])


@dataclass(slots=True, kw_only=True)
class ContentCount:
    kept: int = 0
    erased: int = 0
    unfinished: int = 0


def check_contents(
    chain: Chain, read: Callable[[str], bytes | None], findings: Findings
) -> ContentCount:
    """`read` gives the file of a content, or None if it is not there."""
    counted = ContentCount()
    for named in chain.named:
        data = read(named.name)
        is_erased = chain.erased.has(named.number, named.letter)
        side = "input" if named.letter == "i" else "output"
        if data is None and is_erased:
            counted.erased += 1
        elif data is None:
            findings.add(
                Problem.CONTENT_MISSING,
                named.number,
                f"its {side} is not there, and no entry says that it was erased",
            )
        elif not _is_content(named.name, data):
            findings.add(
                Problem.CONTENT_CHANGED,
                named.number,
                f"its {side} is not the one that was recorded",
            )
        else:
            counted.kept += 1
            counted.unfinished += is_erased
    return counted


def is_signed(key: PublicKey, run: str, count: int, last: str, signature: object) -> bool:
    try:
        found = unbase64(signature) if isinstance(signature, str) else b""
    except BadEnvelope:
        return False
    return key.verifies(found, pre_authentication(HEAD_TYPE, head_statement(run, count, last)))


def _is_content(name: str, data: bytes) -> bool:
    try:
        open_file(name, data)
    except BadContent:
        return False
    return True
