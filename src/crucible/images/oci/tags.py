"""Which name means which manifest here: one small file for each, its time of change the time of last use."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from crucible.images.bundle import write_durably
from crucible.images.oci.digests import is_digest
from crucible.values import dataclass

# Names that only Crucible itself uses; no list shows them.
INTERNAL = "build.crucible.internal/"
_FORMAT = 1
_MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """`digest` is the image's manifest; `source_digest` what the name meant where it came from,
    which is an index for most images."""

    reference: str
    digest: str
    source_digest: str
    pulled_at: float
    used_at: float = 0.0

    @property
    def is_internal(self) -> bool:
        return self.reference.startswith(INTERNAL)


class Tags:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, reference: str) -> Tag | None:
        return _load(self._path(reference))

    def all(self) -> tuple[Tag, ...]:
        """By name. What cannot be read is as if it were not there: a pull writes it anew."""
        loaded = (_load(path) for path in self.directory.glob("*.json"))
        found = (tag for tag in loaded if tag is not None)
        return tuple(sorted(found, key=lambda tag: tag.reference))

    def set(self, reference: str, digest: str, source_digest: str) -> Tag:
        now = time.time()
        self.directory.mkdir(parents=True, exist_ok=True)
        facts = {
            "format": _FORMAT,
            "reference": reference,
            "digest": digest,
            "source_digest": source_digest,
            "pulled_at": now,
        }
        write_durably(self._path(reference), json.dumps(facts).encode())
        return Tag(
            reference=reference,
            digest=digest,
            source_digest=source_digest,
            pulled_at=now,
            used_at=now,
        )

    def touch(self, reference: str) -> None:
        """It is in use now: of all that may go, it goes last."""
        with suppress(OSError):
            os.utime(self._path(reference))

    def remove(self, reference: str) -> bool:
        try:
            self._path(reference).unlink()
        except FileNotFoundError:
            return False
        return True

    def sweep(self) -> None:
        """Removes what writers that were killed have left. Only while nobody writes."""
        for path in self.directory.glob(".*"):
            path.unlink(missing_ok=True)

    def _path(self, reference: str) -> Path:
        return self.directory / f"{hashlib.sha256(reference.encode()).hexdigest()}.json"


def _load(path: Path) -> Tag | None:
    try:
        with path.open("rb") as stream:
            facts = json.loads(stream.read(_MAX_BYTES))
            used_at = os.fstat(stream.fileno()).st_mtime
        if facts["format"] != _FORMAT:
            return None
        tag = Tag(
            reference=str(facts["reference"]),
            digest=str(facts["digest"]),
            source_digest=str(facts["source_digest"]),
            pulled_at=float(facts["pulled_at"]),
            used_at=used_at,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return tag if is_digest(tag.digest) and is_digest(tag.source_digest) else None
