"""A recorded run while it is replayed: what of it is still to come, and where it was first left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from crucible.errors import ContentGone, LedgerBroken, ReplayOver

_SHOWN = 500
# Of these nothing comes about in a replay, or it is not compared: what is learned for memory, models that failed or
# were not to be paid, what was erased.
_NOT_PLAYED = ("session", "memory", "model-failed", "budget", "")
_SIDE_POINTS = ("before-session", "before-prompt", "after-session")


class RecordedStep(Protocol):
    """An entry of the ledger, as far as it is read here."""

    @property
    def number(self) -> int: ...
    @property
    def started_us(self) -> int: ...
    @property
    def input(self) -> str | None: ...
    @property
    def output(self) -> str | None: ...
    @property
    def exit_status(self) -> int | None: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...


class RecordedRuns(Protocol):
    """Raises RunMissing; for contents ContentGone where they were erased, LedgerBroken where they were changed."""

    async def entries(self, run: str) -> Sequence[RecordedStep]: ...
    async def blob(self, run: str, name: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """`number` is that of the entry in the ledger, `step` what it recorded."""

    number: int
    step: str
    what: str
    recorded: str = ""
    got: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """From this entry on the run cannot be replayed: what is needed for it is not in the record."""

    number: int
    step: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """`steps` entries of the record came about again. Of the `calls` of tools that ran, `same` came out as recorded,
    `alike` of these but for times and ids. `erased` are entries after the gap whose contents are gone."""

    run: str
    steps: int
    calls: int
    same: int
    alike: int
    erased: int
    divergence: Divergence | None
    gap: Gap | None


class Record:
    """Entries are taken as they come about again; calls of one answer may take theirs in any order."""

    def __init__(self, runs: RecordedRuns, run: str, entries: Sequence[RecordedStep]) -> None:
        self._runs = runs
        self.run = run
        self._entries = {entry.number: entry for entry in entries}
        self._left = dict(self._entries)
        self._moved = asyncio.Event()
        self._divergence: Divergence | None = None
        self._gap: Gap | None = None
        self.steps = self.calls = self.same = self.alike = 0

    def is_over(self) -> bool:
        return self._divergence is not None or self._gap is not None

    def stop_if_over(self) -> None:
        if self.is_over():
            raise ReplayOver

    def left(self) -> Iterator[RecordedStep]:
        yield from tuple(self._left.values())

    def first(self) -> RecordedStep | None:
        """What is to come about next. Others are passed over."""
        for entry in self.left():
            if not _is_aside(entry):
                return entry
            self.pass_over(entry)
        return None

    def next(self, step: str, turn: int | None = None, **facts: Any) -> RecordedStep | None:
        """The first of its kind that is left, of this turn and with these facts."""
        for entry in self._left.values():
            is_it = step_of(entry) == step and (turn is None or turn_of(entry) == turn)
            if (
                is_it
                and not _is_aside(entry)
                and all(entry.facts.get(name) == value for name, value in facts.items())
            ):
                return entry
        return None

    def before(self, entry: RecordedStep) -> RecordedStep | None:
        """The first that should have come about before this one."""
        for one in self._left.values():
            if one.number >= entry.number:
                return None
            # Hooks of a turn that is over were asked about what memory wanted to know.
            is_late = step_of(one) == "hook" and turn_of(one) < turn_of(entry)
            if not _is_aside(one) and not is_late:
                return one
        return None

    def after(self, entry: RecordedStep) -> RecordedStep | None:
        return self._left.get(entry.number + 1)

    def take(self, entry: RecordedStep) -> None:
        if self._left.pop(entry.number, None) is not None:
            self.steps += 1
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()

    def pass_over_judgements(self, entry: RecordedStep) -> None:
        """Of a call that has come out: one that a restart had cut off was judged twice."""
        call = entry.facts.get("call")
        for one in self.left():
            is_of_call = one.facts.get("call") == call and turn_of(one) == turn_of(entry)
            if one.number < entry.number and is_of_call and step_of(one) in ("policy", "hook"):
                self.pass_over(one)

    def pass_over(self, entry: RecordedStep) -> None:
        self._left.pop(entry.number, None)

    async def calls_of(self, turn: int) -> None:
        """Waits until all calls have come out whose end this turn's record has."""
        while not self.is_over() and self.next("tool", turn) is not None:
            await self._moved.wait()

    def all(self, step: str) -> Iterator[RecordedStep]:
        """Also those that have come about."""
        return (entry for entry in self._entries.values() if step_of(entry) == step)

    def end_of(self, turn: int) -> RecordedStep | None:
        return next((one for one in self.all("turn") if turn_of(one) == turn), None)

    async def content(self, entry: RecordedStep, name: str | None) -> bytes:
        """Raises ReplayOver where there is none, and that is where this replay ends."""
        if name is None:
            return b""
        try:
            return await self._runs.blob(self.run, name)
        except ContentGone:
            self.end(entry, "its contents were erased")
        except LedgerBroken as error:
            self.diverge(entry, f"its record is damaged: {error.message}")
        raise ReplayOver

    async def table(self, entry: RecordedStep, name: str | None) -> dict[str, Any]:
        try:
            found = json.loads(await self.content(entry, name))
            if not isinstance(found, dict):
                raise TypeError("it is no object")
        except (ValueError, TypeError) as error:
            self.diverge(entry, f"its record is damaged: {error}")
            raise ReplayOver from None
        return found

    async def blob(self, name: str) -> bytes | None:
        try:
            return await self._runs.blob(self.run, name)
        except (ContentGone, LedgerBroken):
            return None

    def diverge(self, entry: RecordedStep, what: str, recorded: str = "", got: str = "") -> None:
        """The first of the record counts: calls that run side by side come out in any order."""
        known = self._divergence
        if known is None or entry.number < known.number:
            self._divergence = Divergence(
                number=entry.number,
                step=name_of(entry),
                what=what,
                recorded=_short(recorded),
                got=_short(got),
            )
        self._moved.set()

    def explain(self, entry: RecordedStep, got: str) -> None:
        """What is known better than when this entry came out otherwise."""
        known = self._divergence
        if known is not None and known.number == entry.number:
            self._divergence = replace(known, got=_short(got))

    def end(self, entry: RecordedStep, why: str) -> None:
        if self._gap is None or entry.number < self._gap.number:
            self._gap = Gap(number=entry.number, step=name_of(entry), why=why)
        self._moved.set()

    async def told(self) -> Replay:
        return Replay(
            run=self.run,
            steps=self.steps,
            calls=self.calls,
            same=self.same,
            alike=self.alike,
            erased=await self._erased() if self._gap is not None else 0,
            divergence=self._divergence,
            gap=self._gap,
        )

    async def _erased(self) -> int:
        count = 0
        for entry in self.left():
            names = [name for name in (entry.input, entry.output) if name is not None]
            count += any([await self.blob(name) is None for name in names])
        return count


def step_of(entry: RecordedStep) -> str:
    return str(entry.facts.get("step", ""))


def turn_of(entry: RecordedStep) -> int:
    found = entry.facts.get("turn")
    return found if isinstance(found, int) else 0


def name_of(entry: RecordedStep) -> str:
    """For people: the tool's or model's name where there is one."""
    step, name = step_of(entry), str(entry.facts.get("name", ""))
    return name if step == "tool" and name else f"{step} {name}".strip()


def _is_aside(entry: RecordedStep) -> bool:
    step = step_of(entry)
    if step == "hook":
        return entry.facts.get("point") in _SIDE_POINTS
    return step in _NOT_PLAYED or entry.facts.get("purpose") == "memory"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
