"""The signed head of each run, kept apart from the database: how many entries there are, and the last one's hash.

It follows the database, and never goes back. So it may be behind by what was written last when a process died or the
power went; a database that is behind it has lost something.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crucible.ledger.canonical import NotCanonical, parse
from crucible.ledger.chain import HEAD_TYPE, head_statement
from crucible.ledger.envelope import BadEnvelope, Envelope, decode
from crucible.ledger.files import read_at_most, replace_settled
from crucible.ledger.keys import PublicKey

_MAX_BYTES = 4096


class BadHead(ValueError):
    """The file is there and is no head, or not one of this run, or not signed by this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    run: str
    count: int
    hash: str


class Heads:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, head: Head, key: str, signature: bytes) -> None:
        """Keeps the further one if another process has written meanwhile."""
        with self._held():
            known = self._count(head.run)
            if known is None or known <= head.count:
                envelope = Envelope(
                    payload=head_statement(head.run, head.count, head.hash),
                    payload_type=HEAD_TYPE,
                    key=key,
                    signature=signature,
                )
                replace_settled(self._path(head.run), envelope.encode())

    def read(self, run: str, key: PublicKey) -> Head | None:
        """None if there is none."""
        data = read_at_most(self._path(run), _MAX_BYTES)
        if data is None:
            return None
        envelope, head = _decode(data)
        if envelope.key != key.id:
            raise BadHead(f"it is signed with another key ({envelope.key[:12]})")
        if not envelope.is_signed_by(key):
            raise BadHead("its signature does not fit")
        if head.run != run:
            raise BadHead(f"it is that of another run ({head.run})")
        return head

    def runs(self) -> Iterator[str]:
        """Those that have one."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._directory.iterdir():
                if path.suffix == ".json" and not path.name.startswith("."):
                    yield path.stem

    def _count(self, run: str) -> int | None:
        data = read_at_most(self._path(run), _MAX_BYTES)
        if data is None:
            return None
        with contextlib.suppress(BadHead):
            return _decode(data)[1].count
        return None

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._directory / ".lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _path(self, run: str) -> Path:
        return self._directory / f"{run}.json"


def _decode(data: bytes) -> tuple[Envelope, Head]:
    if len(data) > _MAX_BYTES:
        raise BadHead("it is too large")
    try:
        envelope = decode(data)
        fields = parse(envelope.payload)
    except (BadEnvelope, NotCanonical) as error:
        raise BadHead(str(error)) from None
    match fields:
        case {"v": 1, "run": str(run), "count": int(count), "hash": str(last), **rest} if not rest:
            if envelope.payload_type == HEAD_TYPE:
                return envelope, Head(run=run, count=count, hash=last)
    raise BadHead("it is no head of a run")
