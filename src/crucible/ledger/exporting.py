"""Writes a run into one signed file, after checking it: what is not as it was signed is not signed again."""

from __future__ import annotations

import os
import secrets
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection

from crucible.errors import LedgerBroken, PathRefused
from crucible.ledger import rows
from crucible.ledger.canonical import NotCanonical
from crucible.ledger.contents import Contents
from crucible.ledger.envelope import Envelope, pre_authentication
from crucible.ledger.heads import Heads
from crucible.ledger.keys import SigningKey
from crucible.ledger.live import verify_run
from crucible.ledger.manifests import CONTENTS, MANIFEST, PAYLOAD_TYPE, Manifest, check_manifest
from crucible.ledger.verifying import Finding, Findings, Problem, Verdict
from crucible.store.database import Database

_OF_CONTENTS = (Problem.CONTENT_CHANGED, Problem.CONTENT_MISSING)


def export_manifest(
    run: str, *, database: Database, heads: Heads, contents: Contents, key: SigningKey
) -> bytes:
    """The envelope, without contents, which may be lost: it says only what was recorded."""
    verdict = verify_run(run, database=database, heads=heads, contents=contents, key=key.public)
    _refuse(verdict, [item for item in verdict.findings if item.problem not in _OF_CONTENTS])
    return _sign(_read(database, run, key), key)


def export_archive(
    run: str,
    target: Path,
    *,
    database: Database,
    heads: Heads,
    contents: Contents,
    key: SigningKey,
) -> None:
    """A zip file with the contents that were not erased. It is there whole or not at all."""
    verdict = verify_run(run, database=database, heads=heads, contents=contents, key=key.public)
    _refuse(verdict, list(verdict.findings))
    manifest = _read(database, run, key)
    with _replaced(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, _sign(manifest, key))
        chain = check_manifest(manifest, key.public, Findings())
        for named in chain.named:
            data = contents.file(run, named.name)
            if data is not None and not chain.erased.has(named.number, named.letter):
                archive.writestr(f"{CONTENTS}{named.name}", data)


def write_manifest(target: Path, envelope: bytes) -> None:
    with _replaced(target) as file:
        file.write(envelope + b"\n")


def _refuse(verdict: Verdict, findings: list[Finding]) -> None:
    if findings:
        first = findings[0]
        where = "" if first.entry is None else f"entry {first.entry}: "
        raise LedgerBroken(verdict.run, f"{where}{first.detail}")


def _read(database: Database, run: str, key: SigningKey) -> Manifest:
    manifest = database.look(partial(_from_rows, run=run))
    findings = Findings()
    check_manifest(manifest, key.public, findings)
    if len(findings):
        raise LedgerBroken(run, findings.sorted()[0].detail)
    return manifest


def _from_rows(connection: Connection, *, run: str) -> Manifest:
    row = rows.run_row(connection, run)
    if row is None:
        raise LedgerBroken(run, "it is gone")
    try:
        return Manifest(
            opening=rows.opened_fields(row),
            count=row["count"],
            hash=row["hash"],
            exported_us=time.time_ns() // 1000,
            entries=[
                {
                    **rows.hashed_fields(entry),
                    "hash": entry["hash"],
                    "signature": entry["signature"],
                }
                for entry in rows.entry_rows(connection, run)
            ],
        )
    except NotCanonical:
        raise LedgerBroken(run, "the facts of an entry cannot be read") from None


def _sign(manifest: Manifest, key: SigningKey) -> bytes:
    payload = manifest.payload()
    return Envelope(
        payload=payload,
        payload_type=PAYLOAD_TYPE,
        key=key.public.id,
        signature=key.sign(pre_authentication(PAYLOAD_TYPE, payload)),
    ).encode()


@contextmanager
def _replaced(target: Path) -> Iterator[BinaryIO]:
    """A new file in place of what is there; for its user alone, since what people wrote may be in it."""
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise PathRefused(f"{target} cannot be written: {error.strerror}") from None
