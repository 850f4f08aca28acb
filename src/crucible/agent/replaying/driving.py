"""A replay from the first prompt to the last: what people did to the session, in the order of the record."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from crucible.agent.attaching import Placed, attached_from_json
from crucible.agent.events import MARKED, Event
from crucible.agent.keeping.base import Kept, SessionRecord
from crucible.agent.lanes import Lanes
from crucible.agent.messages import Message, UserMessage, from_json
from crucible.agent.models.base import Schema
from crucible.agent.options import SessionOptions, options_from_json
from crucible.agent.parts import Parts
from crucible.agent.plain import NoChronicle, NoMemory, NoPurse
from crucible.agent.replaying.comparing import Comparing
from crucible.agent.replaying.playing import (
    PlayedApprovals,
    PlayedHooks,
    PlayedModels,
    PlayedTools,
    Stage,
    recorded_profiles,
)
from crucible.agent.replaying.record import Record, RecordedStep, step_of, turn_of
from crucible.agent.workplace import WORKSPACE
from crucible.errors import BadSetting, CrucibleError, ReplayOver, SessionMissing, Unsupported

_OF_A_TURN = ("model", "tool", "artifact", "policy", "approval", "hook", "turn")


async def play(record: Record, parts: Parts, lanes: Lanes) -> None:
    """By an engine of its own, whose model, people and hooks are the record and which keeps nothing."""
    with contextlib.suppress(ReplayOver):
        options = await recorded_options(record)
        profiles = await recorded_profiles(record, parts.models)
        stage = Stage(record)
        driver = Driver(stage)
        played = replace(
            parts,
            store=Unkept(),
            models=PlayedModels(stage, profiles),
            toolbox=PlayedTools(stage, parts.toolbox),
            recorder=Comparing(record, driver.configure),
            purse=NoPurse(),
            memory=NoMemory(),
            chronicler=NoChronicle(),
            hooks=PlayedHooks(stage),
            runs=None,
            closing=(),
        )
        await driver.run(played, lanes, options)


class Driver:
    """Does to the session what was done to it. All that its engine records is compared."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._record = stage.record

    async def run(self, parts: Parts, lanes: Lanes, options: SessionOptions) -> None:
        from crucible.agent.engine import Engine

        approvals = PlayedApprovals(parts, self._stage)
        async with Engine(parts, lanes=lanes, approvals=approvals) as engine:
            self._engine = engine
            self._session = f"replay-{secrets.token_hex(8)}"
            session = await engine.add_session(self._session, options)
            self._stage.session = lambda: session
            try:
                await self._to_the_end()
            finally:
                await engine.destroy(self._session)

    async def _to_the_end(self) -> None:
        """Or to the first divergence, or to where the record has a gap."""
        record = self._record
        while not record.is_over() and (entry := record.first()) is not None:
            try:
                await self._go_on(entry)
            except ReplayOver:
                return
            except CrucibleError as error:
                record.diverge(entry, "it could not be done again", got=error.message)
                return
            if not record.is_over() and record.first() is entry:
                record.diverge(entry, "it did not come about again")

    async def configure(self, entry: RecordedStep) -> None:
        changes = await self._record.table(entry, entry.input)
        await self._engine.configure(self._session, changes)

    async def _go_on(self, entry: RecordedStep) -> None:
        engine, session = self._engine, self._session
        match step_of(entry):
            case "attached":
                await self._attach(entry)
            case "prompt":
                await self._prompt(entry)
            case "configured":
                await self.configure(entry)
            case "rewound":
                await engine.rewind(session, (await self._asked(entry))["steps"])
            case "retracted":
                await engine.retract(session, (await self._asked(entry))["turn"])
            case "cleared":
                await engine.clear(session)
            case "compacted":
                await engine.compact(session)
            case "pinned":
                asked = await self._asked(entry)
                await engine.pin(session, asked["position"], is_pinned=asked["is_pinned"])
            case step if step in _OF_A_TURN:
                await self._resume(entry)
            case _:
                self._record.pass_over(entry)

    async def _attach(self, entry: RecordedStep) -> None:
        """The file lies where it lay. The prompt tells the model of it."""
        record, session = self._record, self._stage.session()
        name = (await record.content(entry, entry.input)).decode(errors="replace")
        if PurePosixPath(name).name != name:
            record.diverge(entry, f"its record is damaged: {name!r} is no name of a file")
            return
        if entry.output is None and entry.facts.get("size"):
            record.end(entry, f"the file {name!r} was too large to be kept")
            return
        data = await record.content(entry, entry.output)
        await session.workplace.open()
        session.note_place()
        await session.workplace.write(f"{WORKSPACE}/{name}", data)
        record.take(entry)

    async def _prompt(self, entry: RecordedStep) -> None:
        told = await self._record.table(entry, entry.input)
        message, asked = from_json(told), told.get("asked", {})
        if not isinstance(message, UserMessage):
            raise BadSetting("The recorded prompt is none")
        end = self._record.end_of(turn_of(entry))
        # A record from before this was written down has at least where the prompt went.
        intent = asked.get("intent") if asked else end.facts.get("intent") if end else None
        schema = asked.get("schema")
        self._stage.session().change(turns=turn_of(entry) - 1)
        turn = await self._engine.begin(
            self._session,
            message.text,
            pictures=message.pictures,
            schema=Schema(name=asked.get("schema_name", ""), schema=schema) if schema else None,
            intent=intent or None,
            max_repairs=asked.get("max_repairs", 2),
            attachments=_files(asked),
        )
        self._told((await turn.wait()).error, end)

    async def _resume(self, entry: RecordedStep) -> None:
        """A turn without a prompt went on with what another had left."""
        end = self._record.end_of(turn_of(entry))
        if end is not None and entry.number > end.number:
            # What was asked after its end, for memory.
            self._record.pass_over(entry)
            return
        self._stage.session().change(turns=turn_of(entry) - 1)
        turn = await self._engine.resume(self._session)
        self._told((await turn.wait()).error, end)

    async def _asked(self, entry: RecordedStep) -> dict[str, Any]:
        return await self._record.table(entry, entry.input)

    def _told(self, error: Mapping[str, Any], end: RecordedStep | None) -> None:
        """Why a turn failed that did not fail then: its own step does not say."""
        if error and error.get("code") != ReplayOver.code and end is not None:
            self._record.explain(end, f"{error.get('code')}: {error.get('message')}")


def _files(asked: Mapping[str, Any]) -> Placed:
    """What the model is told of; the steps before have put it there. A record from before this was kept has none."""
    try:
        return Placed(files=tuple(attached_from_json(one) for one in asked.get("files", ())))
    except (KeyError, TypeError, ValueError):
        raise BadSetting("The recorded files of the prompt are none") from None


async def recorded_options(record: Record) -> SessionOptions:
    """What the session was asked to be. Raises ReplayOver where that is gone, Unsupported for a branch of another."""
    entry = next(record.all("session"), None)
    if entry is None or entry.input is None:
        raise Unsupported(
            f"Run {record.run!r} is no session of the agent",
            hint="List what was recorded with `crucible runs list`",
        )
    if parent := entry.facts.get("parent"):
        raise Unsupported(
            f"Session {record.run!r} began as a branch of {parent!r}, whose sandbox is not in its record",
            hint=f"Replay the other with `crucible runs replay {parent}`",
        )
    return options_from_json(await record.table(entry, entry.input))


class Unkept:
    """A store of sessions that keeps where turns are, in memory, and nothing else: a replay leaves nothing behind."""

    def __init__(self) -> None:
        self._marked: list[Event] = []

    async def save(self, record: SessionRecord) -> None:
        pass

    async def append(
        self,
        record: SessionRecord,
        *,
        first: int,
        messages: Sequence[Message],
        events: Sequence[Event],
    ) -> None:
        self._marked += [event for event in events if event.kind in MARKED]

    async def rewrite(self, record: SessionRecord, messages: Sequence[Message]) -> None:
        pass

    async def redact(
        self, session: str, *, messages: Mapping[int, Message], events: Sequence[Event]
    ) -> None:
        pass

    async def load(self, session: str) -> Kept:
        raise SessionMissing(session[:64])

    async def events(self, session: str, *, after: int, limit: int) -> tuple[Event, ...]:
        return ()

    async def marks(
        self, session: str, kind: str, *, before_turn: int | None = None, limit: int
    ) -> tuple[Event, ...]:
        found = [
            event
            for event in reversed(self._marked)
            if event.kind == kind and (before_turn is None or event.turn < before_turn)
        ]
        return tuple(found[:limit])

    async def delete(self, session: str) -> None:
        pass

    async def list(self) -> tuple[SessionRecord, ...]:
        return ()

    async def exists(self, session: str) -> bool:
        return False

    async def close(self) -> None:
        pass
