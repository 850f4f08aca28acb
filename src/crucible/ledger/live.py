"""Checks a run of this state directory: the database, the head that is kept apart from it, the contents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection

from crucible.errors import RunMissing
from crucible.ledger import rows
from crucible.ledger.canonical import NotCanonical
from crucible.ledger.contents import Contents
from crucible.ledger.heads import BadHead, Head, Heads
from crucible.ledger.keys import PublicKey
from crucible.ledger.steps import check_run
from crucible.ledger.verifying import (
    Chain,
    Findings,
    Problem,
    Verdict,
    check_contents,
)
from crucible.store.database import Database


def verify_run(
    run: str, *, database: Database, heads: Heads, contents: Contents, key: PublicKey
) -> Verdict:
    """May be done while entries are being added. RunMissing if neither the database nor a head knows of it."""
    findings = Findings()
    # The head first: what is added while we look puts the database before it, never behind.
    head = _head(check_run(run), heads, key, findings)
    chain, is_there = database.look(
        partial(_read_chain, run=run, head=head, key=key, findings=findings)
    )
    if not is_there and (head is None or not head.count) and not len(findings):
        raise RunMissing(run)
    if is_there and head is None and not len(findings):
        findings.add(Problem.HEAD_MISSING, None, "the signed head of the run is not there")
    counted = check_contents(chain, partial(contents.file, run), findings)
    return Verdict(
        run=run,
        count=chain.count,
        key=key.id,
        findings=findings.sorted(),
        kept=counted.kept,
        erased=counted.erased,
        unfinished=counted.unfinished,
        head_behind=0 if head is None else max(0, chain.count - head.count),
    )


def _head(run: str, heads: Heads, key: PublicKey, findings: Findings) -> Head | None:
    try:
        return heads.read(run, key)
    except BadHead as error:
        findings.add(Problem.HEAD_CHANGED, None, f"of the head that is kept apart, {error}")
        return None


def _read_chain(
    connection: Connection, *, run: str, head: Head | None, key: PublicKey, findings: Findings
) -> tuple[Chain, bool]:
    row = rows.run_row(connection, run)
    first = "" if row is None else _check_opening(row, key, findings)
    chain = Chain(run, first, key, findings)
    at_head = first if head is not None and head.count == 0 else None
    for entry in rows.entry_rows(connection, run):
        try:
            fields = rows.hashed_fields(entry)
        except NotCanonical:
            fields = {"v": None, **entry}
        chain.take(fields, entry["hash"], entry["signature"])
        if head is not None and chain.count == head.count:
            at_head = chain.last
    if row is not None:
        _check_end(row, chain, findings)
    if head is not None:
        _check_head(head, row is not None, chain, at_head, findings)
    return chain, row is not None or chain.count > 0


def _check_opening(row: Mapping[str, Any], key: PublicKey, findings: Findings) -> str:
    if row["key"] != key.id:
        findings.add(
            Problem.FOREIGN_KEY, None, f"the run was begun with another key ({row['key']!s:.12})"
        )
    found = rows.opening_hash(row)
    if found is None:
        findings.add(Problem.RUN_CHANGED, None, "the opening of the run cannot be read")
    return found or ""


def _check_end(row: Mapping[str, Any], chain: Chain, findings: Findings) -> None:
    if row["count"] != chain.count:
        findings.add(
            Problem.TRUNCATED,
            chain.count + 1,
            f"the run says to have {row['count']!r} entries, and has {chain.count}",
        )
    elif row["hash"] != chain.last:
        findings.add(Problem.RUN_CHANGED, None, "the run does not end with the entry that it says")


def _check_head(
    head: Head, is_there: bool, chain: Chain, at_head: str | None, findings: Findings
) -> None:
    if chain.count < head.count or (not is_there and head.count):
        findings.add(
            Problem.TRUNCATED,
            chain.count + 1,
            f"{head.count} entries were signed, and {chain.count} are there",
        )
    elif is_there and at_head != head.hash:
        what = f"entry {head.count}" if head.count else "the opening"
        findings.add(
            Problem.RUN_CHANGED if not head.count else Problem.ENTRY_CHANGED,
            head.count or None,
            f"{what} is not the one of the signed head",
        )
