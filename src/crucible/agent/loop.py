"""The three ways of a turn: talk, tools, or one program. Each asks the model until it has its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase

from crucible.agent import pipeline, structured
from crucible.agent.asking import Asker, choose_model
from crucible.agent.calling import Caller
from crucible.agent.compacting import Compactor
from crucible.agent.hooking import ask_hooks
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.messages import (
    AssistantMessage,
    Text,
    ToolMessage,
    UserMessage,
)
from crucible.agent.models.base import Answered, Model, Request
from crucible.agent.models.embedded_prompts import ask_for_program
from crucible.agent.parts import Parts
from crucible.agent.pipeline import Program
from crucible.agent.prompts import system_prompt
from crucible.agent.rewinding import Checkpoints
from crucible.agent.session import Session
from crucible.agent.tools.base import Tool
from crucible.agent.turn import Came, Turn
from crucible.errors import ContextTooLong, HookBlocked, ObjectUnfit


class Loop:
    def __init__(
        self,
        parts: Parts,
        asker: Asker,
        caller: Caller,
        compactor: Compactor,
        checkpoints: Checkpoints,
    ) -> None:
        self._parts = parts
        self._asker = asker
        self._caller = caller
        self._compactor = compactor
        self._checkpoints = checkpoints

    async def run(self, session: Session, turn: Turn, recalled: str) -> Came:
        """From whatever state the messages are in: an open call is answered first."""
        model = choose_model(self._parts, session, "chat" if turn.intent == "chat" else "agent")
        match turn.intent:
            case "agent":
                return await self._with_tools(session, turn, model, recalled)
            case "chat":
                return await self._talk(session, turn, model, recalled)
            case "code":
                return await self._with_program(session, turn, model, recalled)

    async def _talk(self, session: Session, turn: Turn, model: Model, recalled: str) -> Came:
        while self._may_go_on(session):
            answered = await self._ask(session, turn, model, recalled, {})
            answered = await self._last_word(session, answered)
            self._keep(session, answered.message)
            if (came := self._settled(session, turn, answered)) is not None:
                return came
        return _stopped(session)

    async def _with_tools(self, session: Session, turn: Turn, model: Model, recalled: str) -> Came:
        tools = await self.tools(session)
        await self._answer_open_calls(session, turn, tools)
        while self._may_go_on(session):
            answered = await self._ask(session, turn, model, recalled, tools)
            if not answered.message.calls:
                answered = await self._last_word(session, answered)
                self._keep(session, answered.message)
                if (came := self._settled(session, turn, answered)) is not None:
                    return came
                continue
            await self._checkpoints.take(session)
            self._keep(session, answered.message)
            await session.write()
            await self._answer_open_calls(session, turn, tools)
        return _stopped(session)

    async def _with_program(
        self, session: Session, turn: Turn, model: Model, recalled: str
    ) -> Came:
        tools = await self.tools(session)
        while self._may_go_on(session):
            if (last := _unanswered(session)) is None:
                answered = await self._ask(session, turn, model, recalled, {})
                program = pipeline.find_program(answered.message.text)
                if program is None:
                    answered = await self._last_word(session, answered)
                self._keep(session, answered.message)
                await session.write()
                if program is None:
                    if (came := self._settled(session, turn, answered)) is not None:
                        return came
                    continue
                last = program
            if (came := await self._run_program(session, turn, model, last, tools)) is not None:
                return came
        return _stopped(session)

    async def _run_program(
        self, session: Session, turn: Turn, model: Model, program: Program, tools: dict[str, Tool]
    ) -> Came | None:
        """None if the model is to see what came of it."""
        open_turn = _open(session)
        call = program.call(open_turn.number, open_turn.iterations)
        (result,) = await self._caller.call_all(session, turn, (call,), tools)
        turn.results.clear()
        session.change(steps=session.record.steps + 1)
        # One that shows no more than where a value lies has said nothing; most models see that for themselves.
        is_failed = result.is_error or (model.profile.is_tiny and pipeline.is_bare_object(result))
        repairs = open_turn.repairs + is_failed
        is_last = repairs > pipeline.MOST_REPAIRS
        session.change(turn=replace(_open(session), repairs=repairs))
        if is_last or (model.profile.is_tiny and not is_failed):
            text = pipeline.say_what_ran(program, result)
            session.tell("text", {"text": text})
            said = pipeline.say_result(result, is_failed=is_failed, may_repair=False)
            session.add(UserMessage(text=said))
            session.add(AssistantMessage(parts=(Text(text=text),), model=str(model.ref)))
            return Came(end="too-many-steps" if is_failed else "done")
        said = pipeline.say_result(result, is_failed=is_failed, may_repair=True)
        session.add(UserMessage(text=said))
        await session.write()
        return None

    async def tools(self, session: Session) -> dict[str, Tool]:
        """By name, those that the session may use."""
        wanted, toolbox = session.options.tools, self._parts.toolbox
        found = await toolbox.tools(session.id, session.options, session.workplace)
        for where, why in toolbox.missing(session.id).items():
            session.tell("notice", {"text": f"Tools of {where} are left out: {why}"})
        return {
            tool.spec.name: tool
            for tool in found
            if wanted is None or any(fnmatchcase(tool.spec.name, one) for one in wanted)
        }

    async def _ask(
        self,
        session: Session,
        turn: Turn,
        model: Model,
        recalled: str,
        tools: dict[str, Tool],
    ) -> Answered:
        await self._compactor.make_room(session, turn, model)
        try:
            return await self._asker.ask(
                session, turn, model, self._request(session, turn, model, recalled, tools)
            )
        except ContextTooLong:
            # Our count was too low, or the model's window is smaller than we were told: make room by force, once.
            if not await self._compactor.shrink(session, turn, model):
                raise
            return await self._asker.ask(
                session, turn, model, self._request(session, turn, model, recalled, tools)
            )

    def _request(
        self,
        session: Session,
        turn: Turn,
        model: Model,
        recalled: str,
        tools: dict[str, Tool],
    ) -> Request:
        schema = turn.shape.schema if turn.shape else None
        told = schema if schema is not None and not model.profile.takes_schema else None
        request = Request(
            system=system_prompt(turn.intent, session.options.system, recalled, told),
            messages=tuple(session.messages),
            tools=tuple(tool.spec for tool in tools.values()),
            schema=schema,
        )
        if turn.intent == "code" and model.profile.is_tiny and schema is None:
            return ask_for_program(request)
        return request

    async def _answer_open_calls(
        self, session: Session, turn: Turn, tools: dict[str, Tool]
    ) -> None:
        last = session.messages[-1] if session.messages else None
        if not isinstance(last, AssistantMessage) or not last.calls:
            return
        results = await self._caller.call_all(
            session, turn, last.calls, tools, are_whole=last.is_whole
        )
        session.add(ToolMessage(results=results))
        turn.results.clear()
        session.change(steps=session.record.steps + 1)
        await session.write()

    async def _last_word(self, session: Session, answered: Answered) -> Answered:
        """The answer as hooks let the user see it."""
        text = answered.message.text
        given = {"text": text, "end": "done"}
        turn = _open(session).number
        try:
            got = await ask_hooks(
                self._parts,
                "after-prompt",
                session=session.id,
                user=session.user,
                turn=turn,
                data=given,
            )
            changed = str(got.get("text", text))
        except HookBlocked as error:
            changed = f"The answer is kept back. {error.message}"
        if changed == text:
            return answered
        message = replace(answered.message, parts=(Text(text=changed),))
        return replace(answered, message=message)

    def _settled(self, session: Session, turn: Turn, answered: Answered) -> Came | None:
        """None if the model must try again, because what it gave is not the object that was asked for."""
        if answered.stop in ("length", "refusal"):
            why = "its limit of output" if answered.stop == "length" else "a refusal of the model"
            session.tell("notice", {"text": f"The answer ended by {why}."})
        elif not answered.message.text.strip():
            session.tell("notice", {"text": "The model ended its answer without a word."})
        if turn.shape is None:
            return Came(end="done")
        faults: tuple[structured.Fault, ...]
        try:
            value = structured.read_object(answered.message.text)
            faults = turn.shape.faults(value)
        except ValueError as error:
            value, shown = None, json.dumps(answered.message.text[:200], ensure_ascii=False)
            faults = (structured.Fault(path="", what=str(error), got=shown),)
        if not faults:
            session.tell("object", {"value": value, "whole": True})
            return Came(end="done", value=value)
        open_turn = _open(session)
        if open_turn.repairs >= open_turn.max_repairs:
            told = "; ".join(str(fault) for fault in faults)
            raise ObjectUnfit(told)
        session.change(turn=replace(open_turn, repairs=open_turn.repairs + 1))
        session.add(UserMessage(text=structured.say_faults(faults)))
        return None

    def _keep(self, session: Session, message: AssistantMessage) -> None:
        session.add(message)
        open_turn = _open(session)
        session.change(
            turn=replace(
                open_turn,
                iterations=open_turn.iterations + 1,
                step_event=session.journal.last_number,
            )
        )

    def _may_go_on(self, session: Session) -> bool:
        return _open(session).iterations < session.options.max_iterations


def _open(session: Session) -> OpenTurn:
    found = session.record.turn
    if found is None:
        raise RuntimeError(f"session {session.id} has no turn")
    return found


def _stopped(session: Session) -> Came:
    most = session.options.max_iterations
    text = f"The turn ended after {most} steps, as many as one may take (max_iterations). "
    session.tell(
        "notice", {"text": text + "What was done is kept: a further prompt goes on from there."}
    )
    return Came(end="too-many-steps")


def _unanswered(session: Session) -> Program | None:
    """A program that was written and not run, because this process is another than the one that asked for it."""
    last = session.messages[-1] if session.messages else None
    if not isinstance(last, AssistantMessage) or not last.is_whole:
        return None
    return pipeline.find_program(last.text)
