"""The ledger of one state directory: runs are opened, steps appended, contents erased. Checks are in `verifying`.

First come the contents, then the entry in the database, then the head: a process that dies in between leaves contents
that no entry names, or a head that is behind, and no lie.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from crucible.errors import ContentGone, LedgerBroken, LedgerUnwritable, RunMissing, RunTaken
from crucible.ledger import erasing, reading, rows
from crucible.ledger.canonical import Plain
from crucible.ledger.chain import (
    HEAD_TYPE,
    VERSION,
    Entry,
    Opening,
    hash_entry,
    hash_opening,
    head_statement,
    opening_fields,
)
from crucible.ledger.contents import BadContent, Contents
from crucible.ledger.envelope import pre_authentication
from crucible.ledger.exporting import export_archive, export_manifest
from crucible.ledger.heads import BadHead, Head, Heads
from crucible.ledger.keys import PublicKey, SigningKey, own_key
from crucible.ledger.live import verify_run
from crucible.ledger.reading import RunSummary
from crucible.ledger.settling import Settling
from crucible.ledger.steps import Kind, Step, check_facts, check_run, check_step, check_word
from crucible.ledger.verifying import Verdict
from crucible.store.database import Database

T = TypeVar("T")
_THREADS = 4
_MOST_CHECKED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A step with its contents, for an append of several at once. None is a step that has none; b"" is empty."""

    step: Step
    input: bytes | None = None
    output: bytes | None = None


class Ledger:
    """Any number of tasks may use it, on one run or on many; entries of a run form one chain in the order of arrival.

    What has begun goes on to its end when who waits for it is cancelled: what happened is recorded.
    """

    def __init__(self, home: Path, database: Database) -> None:
        self.database = database
        self.contents = contents_of(home)
        self.heads = heads_of(home)
        self._home = home
        self._key: SigningKey | None = None
        self._checked: set[str] = set()
        self._starting = threading.Lock()
        self._settling: Settling | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger")

    async def open_run(
        self, run: str, facts: Mapping[str, Plain] | None = None, *, user: str = ""
    ) -> Opening:
        return await self._in_thread(lambda: self._open_run(run, facts or {}, user))

    async def append(
        self, run: str, step: Step, input: bytes | None = None, output: bytes | None = None
    ) -> Entry:
        recorded = Recorded(step=step, input=input, output=output)
        return (await self.append_all(run, [recorded]))[0]

    async def append_all(self, run: str, steps: Iterable[Recorded]) -> list[Entry]:
        """All of them or none, one after the other."""
        listed = list(steps)
        return await self._in_thread(lambda: self.append_now(run, listed))

    async def entries(self, run: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        return await self.database.read(
            partial(reading.entries, run=check_run(run), after=after, limit=limit)
        )

    async def runs(
        self, *, user: str | None = None, before_us: int | None = None, limit: int = 50
    ) -> list[RunSummary]:
        """The latest first."""
        return await self.database.read(
            partial(reading.runs, user=user, before_us=before_us, limit=limit)
        )

    async def run(self, run: str) -> RunSummary:
        return await self.database.read(partial(reading.run, run=check_run(run)))

    async def blob(self, run: str, name: str) -> bytes:
        """A content, by the name that the entry has for it. ContentGone if it was erased, or is not there."""
        return await self._in_thread(lambda: read_content(self.contents, check_run(run), name))

    async def erase(
        self, run: str, names: Iterable[str] | None = None, *, reason: str = ""
    ) -> list[Entry]:
        """Contents go, entries stay, and the erasure is an entry itself. Without `names`, all that the run has.

        What is not a content of this run is passed over. Can be called again, and then finishes what was begun.
        """
        wanted = None if names is None else set(names)
        return await self._in_thread(lambda: self._erase(check_run(run), wanted, reason))

    async def verify(self, run: str, key: PublicKey | None = None) -> Verdict:
        """With the key of this state directory unless another is given."""
        return await self._in_thread(lambda: self.verify_now(run, key))

    async def export(self, run: str) -> bytes:
        """The signed manifest, without contents."""
        return await self._in_thread(lambda: self.export_now(run))

    def verify_now(self, run: str, key: PublicKey | None = None) -> Verdict:
        known = key or self.key.public
        return verify_run(
            run, database=self.database, heads=self.heads, contents=self.contents, key=known
        )

    def export_now(self, run: str) -> bytes:
        return export_manifest(
            run, database=self.database, heads=self.heads, contents=self.contents, key=self.key
        )

    def export_archive_now(self, run: str, target: Path) -> None:
        """The manifest and all contents that were not erased."""
        export_archive(
            run,
            target,
            database=self.database,
            heads=self.heads,
            contents=self.contents,
            key=self.key,
        )

    def close(self) -> None:
        """Waits for what has begun, and for the heads to follow. The database is the caller's to close."""
        self._threads.shutdown(wait=True)
        if self._settling is not None:
            self._settling.close()

    def append_now(self, run: str, steps: list[Recorded]) -> list[Entry]:
        """The same without waiting for an event loop, in the caller's own thread."""
        check_run(run)
        if not steps:
            return []
        checked = [check_step(recorded.step) for recorded in steps]
        self._check_head(run)
        self._settler.check()
        files: list[Path] = []
        for fields, recorded in zip(checked, steps, strict=True):
            fields["input"] = self._keep(run, recorded.input, files)
            fields["output"] = self._keep(run, recorded.output, files)
        entries = self.database.do(partial(self._chain, run=run, steps=checked))
        last = entries[-1]
        head = Head(run=run, count=last.number, hash=last.hash)
        self._settler.add(head, base64.b64decode(last.signature), files)
        return entries

    def settle(self) -> None:
        """Returns when what was appended before survives a loss of power, and the heads have followed."""
        self._settler.wait()

    @property
    def key(self) -> SigningKey:
        """Made at first use."""
        if self._key is None:
            self._key = own_key(self._home)
        return self._key

    def _open_run(self, run: str, facts: Mapping[str, Plain], user: str) -> Opening:
        opening = Opening(
            run=check_run(run),
            opened_us=time.time_ns() // 1000,
            user=check_word("user", user),
            facts=check_facts(facts),
            key=self.key.public.id,
        )
        first = hash_opening(opening_fields(opening))
        self._refuse_lost(run)

        def work(connection: Connection) -> None:
            rows.add_run(connection, opening, first)
            # Before others see the run: one without a head has lost it.
            signature = base64.b64decode(self._sign(run, 0, first))
            with _writing():
                self.heads.write(Head(run=run, count=0, hash=first), opening.key, signature)

        try:
            self.database.do(work)
        except IntegrityError:
            raise RunTaken(run) from None
        return opening

    def _chain(
        self, connection: Connection, run: str, steps: list[dict[str, Plain]]
    ) -> list[Entry]:
        count, last, key = rows.lock_run(connection, run)
        if key != self.key.public.id:
            raise LedgerBroken(run, f"it was begun with another key ({key[:12]})")
        entries = []
        for step in steps:
            count += 1
            fields = {"v": VERSION, "run": run, "number": count, **step, "previous": last}
            last = hash_entry(fields)
            del fields["v"]
            signature = self._sign(run, count, last)
            entries.append(Entry(**fields, hash=last, signature=signature))  # type: ignore[arg-type]
        rows.add_entries(connection, entries)
        return entries

    def _check_head(self, run: str) -> None:
        """Once for each run: what is added to a record that has lost something would hide that."""
        if run in self._checked:
            return
        head = self._head(run)
        is_there = self.database.look(partial(rows.run_row, run=run)) is not None
        # A head without entries may be of a run that was about to be opened.
        if not is_there and (head is None or not head.count):
            raise RunMissing(run)
        if head is None:
            raise LedgerBroken(run, "its head is missing")
        at_head = self.database.look(partial(reading.hash_at, run=run, number=head.count))
        if at_head != head.hash:
            raise LedgerBroken(
                run, f"entry {head.count} is not the one that was signed, or is gone"
            )
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked.add(run)

    def _refuse_lost(self, run: str) -> None:
        if self.database.look(partial(rows.run_row, run=run)) is not None:
            raise RunTaken(run)
        head = self._head(run)
        if head is not None and head.count:
            raise LedgerBroken(run, f"{head.count} entries were signed, and it is gone")

    def _head(self, run: str) -> Head | None:
        try:
            return self.heads.read(run, self.key.public)
        except BadHead as error:
            raise LedgerBroken(run, f"of its head, {error}") from None

    def _sign(self, run: str, count: int, last: str) -> str:
        message = pre_authentication(HEAD_TYPE, head_statement(run, count, last))
        return base64.b64encode(self.key.sign(message)).decode()

    @property
    def _settler(self) -> Settling:
        with self._starting:
            if self._settling is None:
                self._settling = Settling(self.database, self.heads, self.key.public.id)
            return self._settling

    def _keep(self, run: str, content: bytes | None, files: list[Path]) -> str | None:
        if content is None:
            return None
        with _writing():
            name = self.contents.add(run, content)
        files.append(self.contents.path(run, name))
        return name

    def _erase(self, run: str, names: set[str] | None, reason: str) -> list[Entry]:
        found = self.database.look(partial(erasing.find, run=run, names=names))
        now_us = time.time_ns() // 1000
        steps = [
            Recorded(step=Step(kind=Kind.ERASURE, started_us=now_us, facts=facts))
            for facts in erasing.facts_of(found, check_word("reason", reason))
        ]
        entries = self.append_now(run, steps)
        for name in found.names:
            self.contents.remove(run, name)
        self.contents.remove_strays(run, found.known)
        return entries

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._threads, work))


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerUnwritable(error.strerror or str(error)) from None


def contents_of(home: Path) -> Contents:
    return Contents(home / "ledger" / "blobs")


def heads_of(home: Path) -> Heads:
    return Heads(home / "ledger" / "heads")


def read_content(contents: Contents, run: str, name: str) -> bytes:
    try:
        found = contents.read(run, name)
    except BadContent:
        raise LedgerBroken(
            run, f"the content {name[:12]} is not the one that was written"
        ) from None
    if found is None:
        raise ContentGone(run, name)
    return found
