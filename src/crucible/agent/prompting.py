"""Begins turns: by a prompt, by the last one again, or where another left off. They live here until they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crucible.agent.asking import Asker
from crucible.agent.attaching import Placed, place_files
from crucible.agent.deeds import done
from crucible.agent.facts import Attachment, Intent
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.lanes import Lanes
from crucible.agent.learning import Learner
from crucible.agent.messages import AssistantMessage, Picture, UserMessage
from crucible.agent.models.base import Schema
from crucible.agent.parts import Parts
from crucible.agent.retracting import files_of, find_kept, find_turn, last_prompt, retract
from crucible.agent.session import Session
from crucible.agent.sessions import Sessions
from crucible.agent.structured import Shape, shape_of
from crucible.agent.turn import Came, Turn
from crucible.agent.turns import Turns, results_of_open_calls
from crucible.errors import BadSetting, CrucibleError, NothingToResume

if TYPE_CHECKING:
    from pydantic import BaseModel

    Wanted = Schema | Mapping[str, Any] | type[BaseModel]

_LONGEST_PROMPT = 1 << 20
_MOST_REPAIRS = 8


class Prompting:
    """Of one engine. `sessions` finds whom it is about, `turns` sees each turn through."""

    def __init__(
        self, parts: Parts, lanes: Lanes, sessions: Sessions, asker: Asker, turns: Turns
    ) -> None:
        self._parts = parts
        self._lanes = lanes
        self._sessions = sessions
        self._asker = asker
        self._turns = turns
        self._learner = Learner(parts, asker)
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(
        self,
        session: str,
        prompt: str,
        *,
        pictures: tuple[Picture, ...] = (),
        schema: Wanted | None = None,
        intent: Intent | None = None,
        max_repairs: int = 2,
        attachments: tuple[Attachment, ...] | Placed = (),
        instead_of: int | None = None,
        kept: tuple[str, ...] = (),
    ) -> Turn:
        if not prompt.strip() or len(prompt) > _LONGEST_PROMPT:
            raise BadSetting(f"A prompt has 1 to {_LONGEST_PROMPT} characters")
        if not 0 <= max_repairs <= _MOST_REPAIRS:
            raise BadSetting(f"max_repairs is {max_repairs}, not 0 to {_MOST_REPAIRS}")
        shape = shape_of(schema) if schema is not None else None
        found = await self._sessions.find(session)
        await self._sessions.prepare(found.user)
        async with self._sessions.idle(found):
            given = Placed()
            if instead_of is not None:
                given = await find_kept(self._parts, found, instead_of, kept)
            if not isinstance(attachments, Placed):
                attachments = await place_files(self._parts, found, attachments)
            given = given.with_more(attachments)
            if instead_of is not None:
                given = await self._retract(found, instead_of, given)
            message = UserMessage(text=prompt, pictures=pictures)
            turn = await self._turns.open(
                found, message, shape=shape, intent=intent, max_repairs=max_repairs, given=given
            )
            self._go(found, turn)
        return turn

    async def retry(self, session: str) -> Turn:
        found = await self._sessions.find(session)
        await self._sessions.prepare(found.user)
        async with self._sessions.idle(found):
            said = last_prompt(found)
            began = await find_turn(self._parts, found, said.turn)
            given = await self._retract(found, said.turn, Placed(files=files_of(began)))
            message = UserMessage(text=str(began.data["prompt"]), pictures=said.pictures)
            turn = await self._turns.open(
                found, message, shape=None, intent=None, max_repairs=2, given=given
            )
            self._go(found, turn)
        return turn

    async def resume(self, session: str) -> Turn:
        found = await self._sessions.find(session)
        await self._sessions.prepare(found.user)
        async with self._sessions.idle(found):
            last = found.messages[-1] if found.messages else None
            if last is None or (isinstance(last, AssistantMessage) and last.is_whole):
                raise NothingToResume(session)
            left = _left(found)
            turn = await self._turns.open(
                found,
                None,
                shape=_shape_of(left) if left else None,
                # Talk stays talk; what else there is to do, the model of now may do otherwise.
                intent="chat" if left and left.intent == "chat" else None,
                max_repairs=left.max_repairs if left else 2,
            )
            self._go(found, turn)
        return turn

    async def retract(self, session: str, turn: int) -> None:
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
            await self._retract(found, turn, Placed())

    async def cancel(self, session: str) -> bool:
        async with self._lanes.enter("control"):
            turn = (await self._sessions.find(session)).turn
            if turn is None:
                return False
            turn.cancel()
        await turn.wait()
        return True

    async def take_up(self, session: Session) -> None:
        """The turn that another process left: one that waits for an approval waits on, others were interrupted."""
        open_turn = session.record.turn
        if open_turn is None:
            return
        session.journal.pass_over_lost()
        turn = self._turns.reopen(session, open_turn, _shape_of(open_turn))
        turn.results = await results_of_open_calls(session)
        if session.record.approvals:
            with contextlib.suppress(CrucibleError):
                # Whoever answers the approval is told if there is no model then.
                await self._sessions.prepare(session.user)
            self._turns.close_calls_that_ran(session, turn)
            self._go(session, turn)
        else:
            await self._turns.finish(session, turn, Came(end="interrupted"), {})

    async def stop_learning(self, session: str) -> None:
        await self._learner.leave(session)

    async def close(self) -> None:
        """Ends what runs. Turns that wait for an approval are left to the next engine."""
        for session in self._sessions.held():
            if session.turn is not None:
                session.turn.leave(for_another=bool(session.record.approvals))
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._learner.close()

    async def _retract(self, session: Session, turn: int, given: Placed) -> Placed:
        self._asker.forget(session.id)
        notices = await retract(self._parts, session, turn)
        await self._parts.recorder.record(done(session, "retracted", {"turn": turn}))
        return replace(given, notices=(*notices, *given.notices))

    def _go(self, session: Session, turn: Turn) -> None:
        session.turn = turn
        task = asyncio.create_task(self._live(session, turn), name=f"turn {session.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, session: Session, turn: Turn) -> None:
        await self._turns.see_through(session, turn)
        answer = await turn.wait()
        if answer.end == "done" and session.options.memory and not self._sessions.is_closing:
            self._learner.begin(session, turn)


def _left(session: Session) -> OpenTurn | None:
    """The turn that is to be gone on with, unless its prompt was taken back meanwhile."""
    left = session.record.left
    return left if left is not None and left.began_with <= len(session.messages) else None


def _shape_of(turn: OpenTurn) -> Shape | None:
    """That of the object which the turn was to give."""
    if turn.schema is None:
        return None
    return shape_of(Schema(name=turn.schema_name, schema=turn.schema))
