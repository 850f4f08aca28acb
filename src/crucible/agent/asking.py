"""One call of a model: what it may cost is set aside, its answer is told as it comes, and all of it is recorded."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from crucible.agent.answers import usage_to_json
from crucible.agent.call_records import Call, CallRecords, NoAnswer, OwnPurpose
from crucible.agent.growing import GrowingObject
from crucible.agent.hooking import ask_hooks
from crucible.agent.hooks.points import Point
from crucible.agent.lanes import Lanes
from crucible.agent.messages import (
    AssistantMessage,
    Part,
    Picture,
    ToolCall,
)
from crucible.agent.models.base import (
    Answered,
    CallBegan,
    CallDelta,
    Model,
    ModelRef,
    Purpose,
    Request,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from crucible.agent.models.persistent import may_have_cost
from crucible.agent.parts import Parts
from crucible.agent.seams import Hold, Purse, Spend, models_of
from crucible.agent.session import Session
from crucible.agent.setting_aside import Counts, most_of_new
from crucible.agent.turn import Turn
from crucible.agent.weighing import Scales, Weighed, weigh
from crucible.errors import BadAnswer, BudgetSpent, CrucibleError, PriceUnknown

_LEAST_OUTPUT = 256


def choose_model(parts: Parts, session: Session, purpose: Purpose) -> Model:
    """The one that the session names for this purpose, else its main one, else what settings say."""
    named = session.options.models.get(purpose) or session.options.models.get("agent")
    models = models_of(parts.models, session.user)
    return models.model(models.parse(named) if named else models.default(purpose))


@dataclass(slots=True)
class _Answering:
    """Who is asked: one model, until another is in its place."""

    model: ModelRef
    spend: Spend = field(init=False)
    hold: Hold = field(init=False)

    async def set_aside(self, purse: Purse, spend: Spend) -> None:
        self.hold, self.spend = await purse.reserve(spend), spend

    async def hear(self, event: Retrying, purse: Purse) -> None:
        """A try that may be charged for is paid for by itself. Raises BudgetSpent where nothing is left for another."""
        if event.may_have_cost:
            await self.hold.settle_at_worst(self.model)
            # A step is one iteration, however often it is tried.
            await self.set_aside(purse, replace(self.spend, iterations=0))
        self.model = event.model or self.model


class Asker:
    """Asks models for one engine."""

    def __init__(self, parts: Parts, lanes: Lanes) -> None:
        self._parts = parts
        self._lanes = lanes
        self._records = CallRecords()
        self._counts = Counts()
        self._scales = Scales()

    async def ask(self, session: Session, turn: Turn, model: Model, request: Request) -> Answered:
        """Raises ModelError, BudgetSpent or HookBlocked. The answer is in no history yet."""
        request = await self._prepared(session, model, request, turn.number)
        weighed = self._scales.weigh(session.id, request)
        call, who = Call(turn=turn.number, began_at=time.time()), _Answering(model.ref)
        answered = await self._paid(
            session,
            model,
            weighed,
            call,
            who,
            lambda: self._listen(session, turn, model, request, who),
        )
        self._counts.note(session.id, who.model, weighed, answered.usage.input_tokens)
        session.change(
            context_tokens=answered.usage.input_tokens + answered.usage.output_tokens,
            context_messages=len(session.messages) + 1,
        )
        return answered

    async def ask_quietly(
        self, session: Session, model: Model, request: Request, *, purpose: OwnPurpose, turn: int
    ) -> Answered:
        """For our own purposes, in a turn or after it: it costs and is recorded as any other, and is no answer."""
        if purpose == "memory":
            request = await self._hooked(session, model, request, turn)
        request = replace(request, max_output_tokens=max(_LEAST_OUTPUT, request.max_output_tokens))
        call = Call(turn=turn, purpose=purpose, began_at=time.time())
        who = _Answering(model.ref)
        return await self._paid(
            session,
            model,
            weigh(request),
            call,
            who,
            lambda: _last(model, request, who, self._parts.purse),
        )

    async def _paid(
        self,
        session: Session,
        model: Model,
        weighed: Weighed,
        call: Call,
        who: _Answering,
        listen: Callable[[], Awaitable[Answered]],
    ) -> Answered:
        # What is learned after a turn is no step of one.
        iterations = 0 if call.purpose == "memory" else 1
        spend = Spend(
            session=session.id,
            user=session.user,
            limits=session.options.budget,
            models=most_of_new(model, weighed)
            if call.is_own
            else self._counts.most(session.id, model, weighed),
            iterations=iterations,
        )
        try:
            await who.set_aside(self._parts.purse, spend)
        except (BudgetSpent, PriceUnknown) as error:
            await self._record_failed("budget", session, model, call, who.model, error)
            raise
        try:
            async with self._lanes.enter("generate"):
                answered = await listen()
        except BaseException as error:
            if may_have_cost(error):
                await who.hold.settle_at_worst(who.model)
            else:
                await who.hold.settle(iterations=who.spend.iterations)
            await self._record_failed("model-failed", session, model, call, who.model, error)
            raise
        cost = await _settled(who, answered)
        self._count(session, call, answered, cost)
        step = self._records.step(
            session, model, call, weighed.request, answered, ended_at=time.time(), cost=cost
        )
        await self._parts.recorder.record(step)
        return await self._after(session, answered, call.turn)

    async def _record_failed(
        self,
        kind: NoAnswer,
        session: Session,
        model: Model,
        call: Call,
        asked: ModelRef,
        error: BaseException,
    ) -> None:
        """It was a step, and may have cost: it is recorded too, without what was said in it."""
        step = self._records.failed(kind, session, model, call, asked, error, ended_at=time.time())
        # Why it failed is what the user is to hear of.
        with contextlib.suppress(CrucibleError):
            await self._parts.recorder.record(step)

    def forget(self, session: str) -> None:
        """Its messages are others now."""
        self._records.forget(session)
        self._counts.forget(session)
        self._scales.forget(session)

    async def _prepared(
        self, session: Session, model: Model, request: Request, turn: int
    ) -> Request:
        profile = model.profile
        weighed = self._scales.weigh(session.id, request)
        room = profile.context_tokens - weighed.estimated
        most = request.max_output_tokens or profile.output_tokens
        return replace(
            await self._hooked(session, model, request, turn),
            schema=request.schema if profile.takes_schema else None,
            thinking=session.options.thinking,
            max_output_tokens=max(min(_LEAST_OUTPUT, most), min(most, room)),
            pictures=await self._bytes_of(session, weighed.pictures)
            if profile.sees_pictures
            else {},
        )

    async def _hooked(self, session: Session, model: Model, request: Request, turn: int) -> Request:
        given = {
            "model": str(model.ref),
            "system": request.system,
            "messages": len(request.messages),
            "tools": [tool.name for tool in request.tools],
        }
        got = await self._hooks("before-model", session, turn, given)
        return replace(request, system=str(got.get("system", request.system)))

    async def _listen(
        self,
        session: Session,
        turn: Turn,
        model: Model,
        request: Request,
        who: _Answering,
    ) -> Answered:
        growing = GrowingObject(session, turn)
        turn.draft.clear()
        async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                match event:
                    case TextDelta():
                        turn.draft.add_text(event.text)
                        session.tell("text", {"text": event.text})
                        growing.tell()
                    case ThinkingDelta():
                        turn.draft.add_thinking(event.text)
                        session.tell("thinking", {"text": event.text})
                    case CallBegan():
                        session.tell(
                            "call", {"call": event.id, "tool": event.name, "state": "coming"}
                        )
                    case CallDelta():
                        pass
                    case Retrying():
                        await who.hear(event, self._parts.purse)
                        session.tell(
                            "retry",
                            {
                                "attempt": event.attempt,
                                "delay_s": event.delay_s,
                                "reason": event.reason,
                            },
                        )
                    case Answered():
                        turn.draft.clear()
                        return replace(event, message=_with_ids(event.message))
        raise BadAnswer(f"{model.ref} ended its answer without an end")

    async def _after(self, session: Session, answered: Answered, turn: int) -> Answered:
        given = {
            "model": str(answered.model),
            "text": answered.message.text,
            "calls": [
                {"tool": one.name, "arguments": one.arguments} for one in answered.message.calls
            ],
            "usage": asdict(answered.usage),
        }
        await self._hooks("after-model", session, turn, given)
        if answered.stop in ("length", "other") and not answered.message.calls:
            return replace(answered, message=replace(answered.message, is_whole=False))
        return answered

    async def _hooks(
        self, point: Point, session: Session, turn: int, data: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return await ask_hooks(
            self._parts,
            point,
            session=session.id,
            user=session.user,
            turn=turn,
            data=data,
        )

    def _count(self, session: Session, call: Call, answered: Answered, cost: float | None) -> None:
        usage = answered.usage
        open_turn = session.record.turn
        if open_turn is not None and open_turn.number == call.turn:
            open_turn = replace(
                open_turn,
                usage=open_turn.usage + usage,
                cost_usd=open_turn.cost_usd + (cost or 0.0),
                is_cost_whole=open_turn.is_cost_whole and cost is not None,
            )
        session.change(
            turn=open_turn,
            usage=session.record.usage + usage,
            cost_usd=session.record.cost_usd + (cost or 0.0),
            is_cost_whole=session.record.is_cost_whole and cost is not None,
        )
        session.journal.tell(
            call.turn,
            "usage",
            {
                "model": str(answered.model),
                **usage_to_json(usage),
                "cost_usd": cost,
                "purpose": call.purpose,
            },
        )

    async def _bytes_of(
        self, session: Session, pictures: tuple[Picture, ...]
    ) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for picture in pictures:
            data = await self._parts.recorder.blob(session.id, picture.blob)
            if data is not None:
                found[picture.blob] = data
        return found


async def _settled(who: _Answering, answered: Answered) -> float | None:
    """What nobody told is counted as the worst; what that was in money is not known then."""
    if answered.usage.is_told:
        return await who.hold.settle(
            usage=answered.usage, model=who.model, iterations=who.spend.iterations
        )
    await who.hold.settle_at_worst(who.model)
    return None


async def _last(model: Model, request: Request, who: _Answering, purse: Purse) -> Answered:
    async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, Retrying):
                await who.hear(event, purse)
            if isinstance(event, Answered):
                return event
    raise BadAnswer(f"{model.ref} ended its answer without an end")


def _with_ids(message: AssistantMessage) -> AssistantMessage:
    """Each call with an id of its own, whatever the model gave: results are found by it."""
    seen: set[str] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            if not part.id or part.id in seen:
                part = replace(part, id=f"call-{secrets.token_hex(6)}")
            seen.add(part.id)
        parts.append(part)
    return replace(message, parts=tuple(parts))
