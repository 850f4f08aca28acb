"""A run in one signed file: what it has, and whether a file that came from anywhere is one. Needs no database.

The payload of the envelope is the opening of the run and all its entries. With contents, the envelope lies in a zip
file as `manifest.json`, beside `contents/NAME`.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from crucible.errors import ManifestUnreadable
from crucible.ledger.canonical import NotCanonical, Plain, canonical, parse
from crucible.ledger.chain import HASHED, VERSION, hash_opening
from crucible.ledger.contents import MAX_FILE
from crucible.ledger.envelope import BadEnvelope, Envelope, decode
from crucible.ledger.keys import PublicKey
from crucible.ledger.verifying import (
    Chain,
    ContentCount,
    Findings,
    Problem,
    Verdict,
    check_contents,
)

PAYLOAD_TYPE = "application/vnd.crucible.run.v1+json"
MANIFEST = "manifest.json"
CONTENTS = "contents/"
MAX_MANIFEST = 256 << 20
_MAX_MEMBERS = 1_000_000
_ZIP = b"PK\x03\x04"
_OF_ENTRY = frozenset((*HASHED, "v", "hash", "signature"))
_OF_OPENING = frozenset(("v", "run", "opened_us", "user", "facts", "key"))
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an export says, before anything of it is believed."""

    opening: dict[str, Any]
    count: int
    hash: str
    exported_us: int
    entries: list[dict[str, Any]]

    def payload(self) -> bytes:
        return canonical(
            {
                "v": VERSION,
                "opening": self.opening,
                "count": self.count,
                "hash": self.hash,
                "exported_us": self.exported_us,
                "entries": self.entries,
            }
        )


def verify_file(path: Path, key: PublicKey, *, most: int | None = None) -> Verdict:
    """ManifestUnreadable for what is no export at all, or one whose manifest has more than `most` bytes."""
    with _opened(path) as (file, archive):
        envelope = _envelope(path, file, archive, most)
        manifest = _manifest(path, envelope)
        findings = Findings()
        chain = check_manifest(manifest, key, findings)
        if envelope.key != key.id:
            # Nothing in it is signed by the key that was given: one sentence says it all.
            findings = Findings()
            findings.add(
                Problem.FOREIGN_KEY, None, f"it is signed with another key ({envelope.key[:12]})"
            )
        elif not envelope.is_signed_by(key):
            findings.add(Problem.MANIFEST_CHANGED, None, "its signature does not fit")
        counted = ContentCount()
        # Contents are looked at only where it is certain which they should be.
        if archive is not None and not len(findings):
            counted = _check_archive(archive, chain, findings)
    return Verdict(
        run=str(manifest.opening["run"]),
        count=manifest.count,
        key=key.id,
        findings=findings.sorted(),
        kept=counted.kept,
        erased=counted.erased,
        unfinished=counted.unfinished,
        absent=len(chain.named) if archive is None else 0,
    )


def read_manifest(path: Path) -> Manifest:
    """What a file says, unchecked: `verify_file` first."""
    with _opened(path) as (file, archive):
        return _manifest(path, _envelope(path, file, archive))


def check_manifest(manifest: Manifest, key: PublicKey, findings: Findings) -> Chain:
    """The chain in it, apart from the signature over all."""
    opening = manifest.opening
    try:
        first = hash_opening(opening)
    except NotCanonical:
        first = ""
    if opening["key"] != key.id or opening["v"] != VERSION:
        findings.add(Problem.RUN_CHANGED, None, "the run was begun with another key")
    chain = Chain(str(opening["run"]), first, key, findings)
    for entry in manifest.entries:
        fields = dict(entry)
        chain.take(fields, fields.pop("hash"), fields.pop("signature"))
    if manifest.count != len(manifest.entries) or manifest.count != chain.count:
        findings.add(
            Problem.TRUNCATED,
            chain.count + 1,
            f"it says to have {manifest.count} entries, and has {len(manifest.entries)}",
        )
    elif manifest.hash != chain.last:
        findings.add(Problem.MANIFEST_CHANGED, None, "it does not end with the entry that it says")
    return chain


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, zipfile.ZipFile | None]]:
    try:
        with path.open("rb") as file:
            is_archive = file.read(len(_ZIP)) == _ZIP
            file.seek(0)
            if not is_archive:
                yield file, None
                return
            with zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > _MAX_MEMBERS:
                    raise ManifestUnreadable(str(path), "it has too many members")
                yield file, archive
    except _BROKEN_ZIP as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it is damaged"
        raise ManifestUnreadable(str(path), str(reason)) from None


def _envelope(
    path: Path, file: BinaryIO, archive: zipfile.ZipFile | None, most: int | None = None
) -> Envelope:
    most = most or MAX_MANIFEST
    if archive is None:
        data = file.read(most + 1)
    else:
        try:
            with archive.open(MANIFEST) as member:
                data = member.read(most + 1)
        except KeyError:
            raise ManifestUnreadable(str(path), f"it has no {MANIFEST}") from None
    if len(data) > most:
        raise ManifestUnreadable(str(path), f"it is larger than {most >> 20} MiB")
    try:
        return decode(data.removesuffix(b"\n"))
    except BadEnvelope as error:
        raise ManifestUnreadable(str(path), str(error)) from None


def _manifest(path: Path, envelope: Envelope) -> Manifest:
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ManifestUnreadable(str(path), "its payload is of another type")
    try:
        fields = parse(envelope.payload)
    except NotCanonical as error:
        raise ManifestUnreadable(str(path), str(error)) from None
    match fields:
        case {
            "v": 1,
            "opening": dict(opening),
            "count": int(count),
            "hash": str(last),
            "exported_us": int(exported_us),
            "entries": list(entries),
            **rest,
        } if not rest and opening.keys() == _OF_OPENING:
            return Manifest(
                opening=opening,
                count=count,
                hash=last,
                exported_us=exported_us,
                entries=[_entry(path, entry) for entry in entries],
            )
    raise ManifestUnreadable(str(path), "it does not say what a run's export says")


def _entry(path: Path, entry: Plain) -> dict[str, Any]:
    if not isinstance(entry, dict) or entry.keys() != _OF_ENTRY:
        raise ManifestUnreadable(str(path), "it has an entry without all that an entry has")
    return dict(entry)


def _check_archive(archive: zipfile.ZipFile, chain: Chain, findings: Findings) -> ContentCount:
    members = [member.filename for member in archive.infolist()]
    named = {f"{CONTENTS}{content.name}" for content in chain.named}
    strange = [name for name in members if name != MANIFEST and name not in named]
    if strange or len(members) != len(set(members)):
        what = repr(strange[0][:80]) if strange else "the same name twice"
        findings.add(Problem.MANIFEST_CHANGED, None, f"it has what no entry names: {what}")
    there = set(members)

    def read(name: str) -> bytes | None:
        if f"{CONTENTS}{name}" not in there:
            return None
        try:
            with archive.open(f"{CONTENTS}{name}") as member:
                return member.read(MAX_FILE + 1)
        except _BROKEN_ZIP:
            return b""

    return check_contents(chain, read, findings)
