"""What is learned of a turn once it is over: by the session's model for memory, else by fixed phrases.

Nobody waits for it, and nothing that goes wrong here reaches the turn. The turns of a session are learned in their
order: what was said later replaces what was said before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crucible.agent.asking import Asker, choose_model
from crucible.agent.events import Kind
from crucible.agent.messages import UserMessage
from crucible.agent.models.base import Answered, Model, Request, Schema
from crucible.agent.models.catalog import EMBEDDED, SCRIPTED
from crucible.agent.parts import Parts
from crucible.agent.seams import Asks
from crucible.agent.session import Session
from crucible.agent.structured import ask_for_shape, read_object
from crucible.agent.turn import Turn
from crucible.errors import BadAnswer, CrucibleError, ModelTimedOut

_LONGEST_S = 60.0
_MOST_OUTPUT = 2048
_LONGEST_ANSWER = 64_000
# For what is left to write when the engine closes.
_CLOSING_S = 20.0
_log = logging.getLogger(__name__)


class Learner:
    """Of one engine."""

    def __init__(self, parts: Parts, asker: Asker) -> None:
        self._parts = parts
        self._asker = asker
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._leaving = asyncio.Event()

    def begin(self, session: Session, turn: Turn) -> None:
        """Returns at once."""
        if not turn.said.strip() or self._leaving.is_set():
            return
        waiting = self._tasks.setdefault(session.id, [])
        before = waiting[-1] if waiting else None
        task = asyncio.create_task(self._learn(session, turn, before), name=f"learn {session.id}")
        waiting.append(task)
        task.add_done_callback(lambda done: self._done(session.id, done))

    async def leave(self, session: str) -> None:
        """The session is destroyed: what is not learned yet is not."""
        tasks = self._tasks.get(session, [])
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks))

    async def close(self) -> None:
        """Models are not waited for: what fixed phrases find is kept instead."""
        self._leaving.set()
        if tasks := [task for found in self._tasks.values() for task in found]:
            _, late = await asyncio.wait(tasks, timeout=_CLOSING_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _done(self, session: str, task: asyncio.Task[None]) -> None:
        self._tasks[session].remove(task)
        if not self._tasks[session]:
            del self._tasks[session]

    async def _learn(self, session: Session, turn: Turn, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            ask = self._ask_for(session, turn.number)
            learned = await self._parts.memory.learn(
                session.user, session.id, turn.number, turn.said, ask
            )
            told: list[tuple[Kind, dict[str, Any]]] = []
            if learned.notice:
                told.append(("notice", {"text": learned.notice}))
            if learned.facts:
                told.append(("remembered", {"facts": list(learned.facts)}))
            await _tell(session, turn, told)
        except CrucibleError as failed:
            text = f"Nothing was remembered: {failed.message}"
            with contextlib.suppress(CrucibleError):
                await _tell(session, turn, [("notice", {"text": text})])
        except Exception:
            _log.exception("nothing was learned of turn %d of %s", turn.number, session.id)

    def _ask_for(self, session: Session, turn: int) -> Asks | None:
        """None where a model would do worse than fixed phrases, or is none to be had."""
        try:
            model = choose_model(self._parts, session, "memory")
        except CrucibleError:
            return None
        if model.profile.is_tiny or model.ref.provider in (EMBEDDED, SCRIPTED):
            return None
        return _MemoryAsk(self._asker, session, model, turn, self._leaving)


class _MemoryAsk:
    """One question to the model, within a time and a size, left when the engine closes."""

    def __init__(
        self, asker: Asker, session: Session, model: Model, turn: int, leaving: asyncio.Event
    ) -> None:
        self._asker = asker
        self._session = session
        self._model = model
        self._turn = turn
        self._leaving = leaving

    async def ask(
        self, *, system: str, prompt: str, schema: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Raises what a call of a model does."""
        profile = self._model.profile
        request = Request(
            system=system,
            messages=(UserMessage(text=prompt),),
            schema=Schema(name="memories", schema=schema),
            max_output_tokens=min(_MOST_OUTPUT, profile.output_tokens),
        )
        if not profile.takes_schema and request.schema is not None:
            told = f"{system}\n\n{ask_for_shape(request.schema)}"
            request = replace(request, system=told, schema=None)
        return _read(await self._answer(request))

    async def _answer(self, request: Request) -> Answered:
        asking = asyncio.ensure_future(
            self._asker.ask_quietly(
                self._session, self._model, request, purpose="memory", turn=self._turn
            )
        )
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait(
                {asking, leaving}, timeout=_LONGEST_S, return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done():
                return asking.result()
            why = "the program ends" if leaving.done() else f"it took longer than {_LONGEST_S:g} s"
            raise ModelTimedOut(f"{self._model.ref} was not waited for: {why}")
        finally:
            # What it may have cost is counted before anybody goes on.
            for task in (asking, leaving):
                task.cancel()
            await asyncio.wait({asking, leaving})


def _read(answered: Answered) -> Mapping[str, Any]:
    text = answered.message.text
    if not answered.message.is_whole or len(text) > _LONGEST_ANSWER:
        raise BadAnswer(f"{answered.model} did not come to the end of its list")
    try:
        value = read_object(text)
    except ValueError as error:
        raise BadAnswer(f"Of {answered.model}, {error}") from None
    if not isinstance(value, dict):
        raise BadAnswer(f"{answered.model} answered with no object")
    return value


async def _tell(session: Session, turn: Turn, told: list[tuple[Kind, dict[str, Any]]]) -> None:
    """The turn is over: what is told now must not be told under a number that is given away again after a crash."""
    if told:
        await session.journal.promise(len(told))
        for kind, data in told:
            session.journal.tell(turn.number, kind, data)
    await session.write()
