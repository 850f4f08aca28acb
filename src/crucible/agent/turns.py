"""A turn from its prompt to its end. Whatever ends it, the history it leaves can be gone on with: each call has a
result, and what the model had said is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crucible.agent import messages as message_form
from crucible.agent.answers import answer_of, answer_to_json, step_of
from crucible.agent.asking import choose_model
from crucible.agent.attaching import Placed, with_files
from crucible.agent.call_tellings import result_from_event
from crucible.agent.events import End
from crucible.agent.facts import Answer, Intent
from crucible.agent.hooking import ask_hooks
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.loop import Loop
from crucible.agent.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.parts import Parts
from crucible.agent.router import route
from crucible.agent.seams import Step
from crucible.agent.session import Session
from crucible.agent.structured import Shape
from crucible.agent.turn import Came, Turn
from crucible.errors import BudgetSpent, CrucibleError

_WHY_NO_RESULT: Mapping[End, str] = {
    "cancelled": "cancelled: the user stopped the turn before this call came to its end.",
    "interrupted": (
        "interrupted: the program that ran this call ended. Whether it came to its end is not known; look before "
        "you repeat it."
    ),
    "budget-spent": "not run: the budget is spent.",
}
_FAILED = "not finished: the turn failed before this call came to its end."
_log = logging.getLogger(__name__)


class Turns:
    def __init__(self, parts: Parts, loop: Loop) -> None:
        self._parts = parts
        self._loop = loop

    async def open(
        self,
        session: Session,
        message: UserMessage | None,
        *,
        shape: Shape | None,
        intent: Intent | None,
        max_repairs: int,
        given: Placed | None = None,
    ) -> Turn:
        """Begins one; None goes on with what is there. Raises HookBlocked, and then nothing has begun.

        `given` is what came with the message, and is there already.
        """
        given = given or Placed()
        if message is not None:
            message = replace(message, pictures=(*message.pictures, *given.pictures))
            asked = {
                "files": [one.as_json() for one in given.files],
                "intent": intent,
                "schema_name": shape.schema.name if shape else "",
                "schema": dict(shape.schema.schema) if shape else None,
                "max_repairs": max_repairs,
            }
            message = await self._asked(session, message, asked)
        chosen = intent or self._route(session, message, given)
        number = session.record.turns + 1
        open_turn = OpenTurn(
            number=number,
            intent=chosen,
            began_at=time.time(),
            began_with=len(session.messages),
            max_repairs=max_repairs,
            schema_name=shape.schema.name if shape else "",
            schema=dict(shape.schema.schema) if shape else None,
        )
        session.change(turns=number, turn=open_turn, left=None, last_end=None, used_at=time.time())
        event = session.tell(
            "turn-began",
            {
                "intent": chosen,
                "prompt": message.text if message else "",
                "resumed": message is None,
                "attachments": [one.as_json() for one in given.files],
            },
        )
        for notice in given.notices:
            session.tell("notice", {"text": notice})
        if message is not None:
            text = with_files(message.text, given.files)
            session.add(replace(message, text=text, turn=number))
        return Turn(
            session=session.id,
            number=number,
            intent=chosen,
            first_event=event.number,
            shape=shape,
            said=message.text if message is not None else "",
        )

    def reopen(self, session: Session, open_turn: OpenTurn, shape: Shape | None) -> Turn:
        """One that another process has begun."""
        return Turn(
            session=session.id,
            number=open_turn.number,
            intent=open_turn.intent,
            first_event=session.journal.last_number + 1,
            shape=shape,
        )

    async def see_through(self, session: Session, turn: Turn) -> None:
        """To its end, which is told and kept. Raises nothing."""
        # What is cancelled is the work alone, so that its end is seen to, even if it never began.
        turn.work = asyncio.create_task(self._work(session, turn), name=f"work {session.id}")
        if turn.is_cancelled:
            turn.work.cancel()
        await asyncio.wait({turn.work})
        came, error = Came(end="failed"), dict[str, Any]()
        try:
            came = turn.work.result()
        except asyncio.CancelledError:
            came = Came(end="cancelled" if turn.is_cancelled else "interrupted")
        except CrucibleError as failed:
            came = Came(end="budget-spent" if isinstance(failed, BudgetSpent) else "failed")
            error = failed.as_fields()
        except Exception as failed:
            _log.exception("turn %d of session %s failed", turn.number, session.id)
            error = {
                "code": "internal",
                "message": f"{type(failed).__name__}: {failed}"[:500],
                "hint": "",
            }
        if turn.is_left and session.record.turn is not None:
            turn.end(answer_of(session, turn, session.record.turn, Came(end="interrupted"), {}))
            return
        await self.finish(session, turn, came, error)

    async def _work(self, session: Session, turn: Turn) -> Came:
        await session.write()
        return await self._loop.run(session, turn, await self._recall(session))

    def close_calls_that_ran(self, session: Session, turn: Turn) -> None:
        """Of a turn that goes on after a restart: nobody knows what became of calls that did not wait."""
        waiting = {approval.call for approval in session.record.approvals}
        last = session.messages[-1] if session.messages else None
        if not isinstance(last, AssistantMessage):
            return
        for call in last.calls:
            if call.id not in waiting and call.id not in turn.results:
                why = _WHY_NO_RESULT["interrupted"]
                turn.results[call.id] = self._without(session, call, why)

    async def finish(
        self, session: Session, turn: Turn, came: Came, error: Mapping[str, Any]
    ) -> None:
        open_turn = session.record.turn
        if open_turn is None:
            return
        self._make_whole(session, turn, came.end)
        answer = answer_of(session, turn, open_turn, came, error)
        # Before its end is told: whoever has heard that looks for it.
        await self._chronicle(session, answer)
        session.change(
            turn=None,
            left=None if came.end == "done" else open_turn,
            approvals=(),
            last_end=came.end,
            used_at=time.time(),
        )
        session.journal.tell(turn.number, "turn-ended", answer_to_json(answer))
        try:
            await self._parts.recorder.record(step_of(session, open_turn, answer))
            await session.write()
        except CrucibleError as failed:
            _log.error("the end of turn %d of %s is not kept: %s", turn.number, session.id, failed)
        finally:
            session.turn = None
            turn.end(answer)

    async def _chronicle(self, session: Session, answer: Answer) -> None:
        own = (one for one in reversed(session.messages) if isinstance(one, UserMessage))
        said = next((one.text for one in own if one.turn == answer.turn), "")
        try:
            await self._parts.chronicler.ended(
                session.id, answer.turn, said=said, answer=answer.text, model=answer.model
            )
        except CrucibleError as failed:
            _log.error("turn %d of %s will not be found: %s", answer.turn, session.id, failed)

    def _make_whole(self, session: Session, turn: Turn, end: End) -> None:
        """Gives each open call a result, and keeps what there is of a message that never ended."""
        last = session.messages[-1] if session.messages else None
        if isinstance(last, AssistantMessage) and last.calls:
            why = _WHY_NO_RESULT.get(end, _FAILED)
            results = tuple(
                turn.results.get(call.id) or self._without(session, call, why)
                for call in last.calls
            )
            session.add(ToolMessage(results=results))
            session.change(steps=session.record.steps + 1)
        elif draft := turn.draft.message(last.model if isinstance(last, AssistantMessage) else ""):
            session.add(draft)

    def _without(self, session: Session, call: ToolCall, why: str) -> ToolResult:
        session.tell(
            "result",
            {
                "call": call.id,
                "tool": call.name,
                "text": why,
                "error": True,
                "exit_status": None,
                "blob": "",
                "pictures": [],
                "duration_s": None,
            },
        )
        return ToolResult(call_id=call.id, name=call.name, text=why, is_error=True)

    async def _asked(
        self, session: Session, message: UserMessage, asked: Mapping[str, Any]
    ) -> UserMessage:
        got = await ask_hooks(
            self._parts,
            "before-prompt",
            session=session.id,
            user=session.user,
            turn=session.record.turns + 1,
            data={"text": message.text},
        )
        message = replace(message, text=str(got.get("text", message.text)))
        now = time.time()
        await self._parts.recorder.record(
            Step(
                session=session.id,
                user=session.user,
                turn=session.record.turns + 1,
                kind="prompt",
                name=session.user,
                began_at=now,
                ended_at=now,
                input=json.dumps({**message_form.to_json(message), "asked": asked}).encode(),
            )
        )
        return message

    def _route(self, session: Session, message: UserMessage | None, given: Placed) -> Intent:
        model = choose_model(self._parts, session, "agent")
        if message is None or given.files:
            return "agent" if model.profile.calls_tools else "code"
        return route(message.text, session.messages, model.profile)

    async def _recall(self, session: Session) -> str:
        if not session.options.memory:
            return ""
        prompt = _last_prompt(session)
        if not prompt:
            return ""
        found = await self._parts.memory.recall(session.user, session.id, prompt)
        if found.facts:
            facts = [{"id": one.id, "text": one.text, "reason": one.reason} for one in found.facts]
            session.tell("recalled", {"facts": facts})
        return found.text


async def results_of_open_calls(session: Session) -> dict[str, ToolResult]:
    """What calls of a turn that another process left open had already come to."""
    last = session.messages[-1] if session.messages else None
    if not isinstance(last, AssistantMessage):
        return {}
    wanted = {call.id for call in last.calls}
    open_turn = session.record.turn
    if open_turn is None:
        return {}
    found: dict[str, ToolResult] = {}
    async for event in session.journal.kept(open_turn.step_event):
        if event.kind == "result" and event.data["call"] in wanted:
            found[str(event.data["call"])] = result_from_event(event.data)
    return found


def _last_prompt(session: Session) -> str:
    messages = reversed(session.messages)
    return next((one.text for one in messages if isinstance(one, UserMessage)), "")
