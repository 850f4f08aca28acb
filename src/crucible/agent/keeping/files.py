"""Sessions as files, for who wants to read them with other tools: a directory for each, in it the head as JSON, and
messages and events as lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from crucible.agent import messages as message_form
from crucible.agent.events import Event, Marked
from crucible.agent.keeping.base import (
    Kept,
    SessionRecord,
    event_from_json,
    event_to_json,
    record_from_json,
    record_to_json,
)
from crucible.agent.messages import Message
from crucible.errors import SessionMissing, StateDamaged

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_LONGEST_LINE = 64 << 20
_NUMBER = b'{"number":'
_LOCK = ".lock"

T = TypeVar("T")


class JsonFiles:
    """A `SessionStore`. A line that a crash cut short is left out, and overwritten by the next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._guards: dict[str, asyncio.Lock] = {}

    async def save(self, record: SessionRecord) -> None:
        await self._do(record.id, lambda place: _write_head(place, record))

    async def append(
        self,
        record: SessionRecord,
        *,
        first: int,
        messages: Sequence[Message],
        events: Sequence[Event],
    ) -> None:
        def work(place: Path) -> None:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if messages:
                lines = [
                    {"at": first + position, "message": message_form.to_json(message)}
                    for position, message in enumerate(messages)
                ]
                _add_lines(place / "messages.jsonl", lines)
            if events:
                _add_lines(place / "events.jsonl", [event_to_json(event) for event in events])
            _write_head(place, record)

        await self._do(record.id, work)

    async def rewrite(self, record: SessionRecord, messages: Sequence[Message]) -> None:
        def work(place: Path) -> None:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            lines = [
                _line({"at": position, "message": message_form.to_json(message)})
                for position, message in enumerate(messages)
            ]
            _replace(place / "messages.jsonl", b"".join(lines))
            _write_head(place, record)

        await self._do(record.id, work)

    async def redact(
        self, session: str, *, messages: Mapping[int, Message], events: Sequence[Event]
    ) -> None:
        changed = {event.number: event for event in events}

        def work(place: Path) -> None:
            if messages:
                kept = {**_read_messages(place), **messages}
                lines = [
                    _line({"at": at, "message": message_form.to_json(kept[at])})
                    for at in sorted(kept)
                ]
                _replace(place / "messages.jsonl", b"".join(lines))
            if changed:
                told = (event_from_json(line) for line in _lines(place / "events.jsonl"))
                left = [_line(event_to_json(changed.get(one.number, one))) for one in told]
                _replace(place / "events.jsonl", b"".join(left))

        await self._do(session, work)

    async def load(self, session: str) -> Kept:
        def work(place: Path) -> Kept:
            record = _read_head(place)
            if record is None:
                raise SessionMissing(session)
            kept = _read_messages(place)
            if sorted(kept) != list(range(len(kept))):
                raise StateDamaged(f"Session {session!r} lacks messages in {place}")
            last = 0
            for line in _lines(place / "events.jsonl"):
                last = max(last, event_from_json(line).number)
            return Kept(
                record=record,
                messages=tuple(kept[at] for at in range(len(kept))),
                last_event=last,
            )

        return await self._do(session, work)

    async def events(self, session: str, *, after: int, limit: int) -> tuple[Event, ...]:
        def work(place: Path) -> tuple[Event, ...]:
            found: dict[int, Event] = {}
            for line in _lines(place / "events.jsonl", lambda line: _number(line) > after):
                event = event_from_json(line)
                if event.number > after:
                    found[event.number] = event
                if len(found) >= limit:
                    break
            return tuple(found[number] for number in sorted(found))

        return await self._do(session, work)

    async def marks(
        self, session: str, kind: Marked, *, before_turn: int | None = None, limit: int
    ) -> tuple[Event, ...]:
        sign = f'"kind":"{kind}"'.encode()

        def work(place: Path) -> tuple[Event, ...]:
            found: dict[int, Event] = {}
            for line in _lines(place / "events.jsonl", lambda line: sign in line):
                event = event_from_json(line)
                if event.kind == kind and (before_turn is None or event.turn < before_turn):
                    found[event.number] = event
            return tuple(found[number] for number in sorted(found, reverse=True)[:limit])

        return await self._do(session, work)

    async def delete(self, session: str) -> None:
        def work(place: Path) -> None:
            # The head goes first: whatever happens then, it is no session any more.
            (place / "session.json").unlink(missing_ok=True)
            shutil.rmtree(place, ignore_errors=True)

        await self._do(session, work)
        self._guards.pop(session, None)

    async def list(self) -> tuple[SessionRecord, ...]:
        def work() -> tuple[SessionRecord, ...]:
            if not self._root.is_dir():
                return ()
            found = [
                record
                for place in self._root.iterdir()
                if _ID.fullmatch(place.name) and (record := _read_head(place)) is not None
            ]
            return tuple(sorted(found, key=lambda record: (record.created_at, record.id)))

        return await asyncio.to_thread(work)

    async def exists(self, session: str) -> bool:
        if not _ID.fullmatch(session):
            return False
        return await self._do(session, lambda place: (place / "session.json").is_file())

    async def close(self) -> None:
        pass

    async def _do(self, session: str, work: Callable[[Path], T]) -> T:
        if not _ID.fullmatch(session):
            raise SessionMissing(session[:64])
        async with self._guards.setdefault(session, asyncio.Lock()):
            return await asyncio.to_thread(self._alone, session, work)

    def _alone(self, session: str, work: Callable[[Path], T]) -> T:
        """Another program may take words out of a file while this one adds to it."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._root / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return work(self._root / session)


def _read_messages(place: Path) -> dict[int, Message]:
    kept: dict[int, Message] = {}
    for line in _lines(place / "messages.jsonl"):
        at = int(line["at"])
        # Written again after a crash: what came after the first writing is not of this history.
        for later in [one for one in kept if one >= at]:
            del kept[later]
        kept[at] = message_form.from_json(line["message"])
    return kept


def _write_head(place: Path, record: SessionRecord) -> None:
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    _replace(place / "session.json", _line(record_to_json(record)))


def _read_head(place: Path) -> SessionRecord | None:
    try:
        text = (place / "session.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return record_from_json(json.loads(text))
    except ValueError as error:
        raise StateDamaged(f"{place / 'session.json'} is no JSON: {error}") from error


def _replace(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def _add_lines(path: Path, values: Sequence[Any]) -> None:
    with path.open("ab") as file:
        end = file.tell()
        if end and not _ends_with_newline(path):
            file.write(b"\n")
        file.write(b"".join(_line(value) for value in values))
        file.flush()


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _lines(path: Path, is_wanted: Callable[[bytes], bool] | None = None) -> Iterator[Any]:
    """`is_wanted` may be told lines that are damaged, and tells quickly which are not worth reading."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            if is_wanted is not None and not is_wanted(line):
                continue
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def _number(line: bytes) -> int:
    """Of an event's line, as we write it; a line of another shape is for who reads it whole."""
    begun = line[len(_NUMBER) : len(_NUMBER) + 20].partition(b",")[0]
    return int(begun) if line.startswith(_NUMBER) and begun.isdigit() else sys.maxsize


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
