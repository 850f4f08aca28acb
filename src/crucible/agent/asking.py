"""One call of a model: what it may cost is set aside, its answer is told as it comes, and all of it is recorded."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from crucible.agent import messages as message_form
from crucible.agent.hooking import ask_hooks
from crucible.agent.hooks.points import Point
from crucible.agent.lanes import Lanes
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Part,
    Picture,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from crucible.agent.models.base import (
    Answered,
    CallBegan,
    CallDelta,
    Model,
    Purpose,
    Request,
    Retrying,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from crucible.agent.parts import Parts
from crucible.agent.seams import Spend, Step
from crucible.agent.session import Session
from crucible.agent.structured import read_partial
from crucible.agent.tokens import estimate_request, worst_request
from crucible.agent.turn import Turn
from crucible.errors import (
    BadAnswer,
    ContextTooLong,
    ModelOverloaded,
    ModelRefused,
    NoKey,
    RateLimited,
    UnknownModel,
    WrongKey,
)

_LEAST_OUTPUT = 256
# What a provider refuses before it reads costs nothing.
_NOTHING_SPENT = (
    ContextTooLong,
    ModelOverloaded,
    ModelRefused,
    NoKey,
    RateLimited,
    UnknownModel,
    WrongKey,
)


def choose_model(parts: Parts, session: Session, purpose: Purpose) -> Model:
    """The one that the session names for this purpose, else its main one, else what settings say."""
    named = session.options.models.get(purpose) or session.options.models.get("agent")
    return parts.models.model(parts.models.parse(named) if named else parts.models.default(purpose))


class Asker:
    """Asks models for one engine."""

    def __init__(self, parts: Parts, lanes: Lanes) -> None:
        self._parts = parts
        self._lanes = lanes
        self._recorded: dict[str, int] = {}

    async def ask(self, session: Session, turn: Turn, model: Model, request: Request) -> Answered:
        """Raises ModelError, BudgetSpent or HookBlocked. The answer is in no history yet."""
        request = await self._prepared(session, model, request)
        answered = await self._paid(
            session,
            model,
            request,
            lambda: self._listen(session, turn, model, request),
            lambda: turn.draft.text,
        )
        session.change(
            context_tokens=answered.usage.input_tokens + answered.usage.output_tokens,
            context_messages=len(session.messages) + 1,
        )
        return answered

    async def ask_quietly(self, session: Session, model: Model, request: Request) -> Answered:
        """For our own purposes: it costs and is recorded as any other, and nothing of it is told as the answer."""
        request = replace(request, max_output_tokens=max(_LEAST_OUTPUT, request.max_output_tokens))
        return await self._paid(session, model, request, lambda: _last(model, request), lambda: "")

    async def _paid(
        self,
        session: Session,
        model: Model,
        request: Request,
        call: Callable[[], Awaitable[Answered]],
        so_far: Callable[[], str],
    ) -> Answered:
        hold = await self._parts.purse.reserve(
            Spend(
                session=session.id,
                user=session.user,
                limits=session.options.budget,
                model=model.ref,
                input_tokens=worst_request(request),
                output_tokens=request.max_output_tokens,
                iterations=1,
            )
        )
        began = time.time()
        try:
            async with self._lanes.enter("generate"):
                answered = await call()
        except _NOTHING_SPENT:
            await hold.settle(iterations=1)
            raise
        except BaseException:
            # The provider may have read it all and written what we saw, and more; nobody will tell us its count.
            seen = len(so_far().encode(errors="replace"))
            output = min(request.max_output_tokens, max(seen, 1))
            usage = Usage(input_tokens=worst_request(request), output_tokens=output)
            await hold.settle(usage=usage, iterations=1)
            raise
        cost = await hold.settle(usage=answered.usage, iterations=1)
        self._count(session, answered, cost)
        await self._parts.recorder.record(
            self._step(session, model, request, answered, began, cost)
        )
        return await self._after(session, answered)

    def forget(self, session: str) -> None:
        """Its messages are others now: the next call is recorded with all of them."""
        self._recorded.pop(session, None)

    async def _prepared(self, session: Session, model: Model, request: Request) -> Request:
        profile = model.profile
        given = {
            "model": str(model.ref),
            "system": request.system,
            "messages": len(request.messages),
            "tools": [tool.name for tool in request.tools],
        }
        got = await self._hooks("before-model", session, given)
        room = profile.context_tokens - estimate_request(request)
        most = request.max_output_tokens or profile.output_tokens
        return replace(
            request,
            system=str(got.get("system", request.system)),
            schema=request.schema if profile.takes_schema else None,
            thinking=session.options.thinking,
            max_output_tokens=max(_LEAST_OUTPUT, min(most, room)),
            pictures=await self._pictures(session, request.messages)
            if profile.sees_pictures
            else {},
        )

    async def _listen(
        self, session: Session, turn: Turn, model: Model, request: Request
    ) -> Answered:
        shown: Any = None
        turn.draft.clear()
        async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                match event:
                    case TextDelta():
                        turn.draft.add_text(event.text)
                        session.tell("text", {"text": event.text})
                        shown = _tell_object(session, turn, shown)
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

    async def _after(self, session: Session, answered: Answered) -> Answered:
        given = {
            "model": str(answered.model),
            "text": answered.message.text,
            "calls": [
                {"tool": one.name, "arguments": one.arguments} for one in answered.message.calls
            ],
            "usage": asdict(answered.usage),
        }
        await self._hooks("after-model", session, given)
        if answered.stop in ("length", "other") and not answered.message.calls:
            return replace(answered, message=replace(answered.message, is_whole=False))
        return answered

    async def _hooks(
        self, point: Point, session: Session, data: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        turn = session.record.turn
        return await ask_hooks(
            self._parts,
            point,
            session=session.id,
            user=session.user,
            turn=turn.number if turn else session.record.turns,
            data=data,
        )

    def _count(self, session: Session, answered: Answered, cost: float | None) -> None:
        usage = answered.usage
        open_turn = session.record.turn
        if open_turn is not None:
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
        session.tell(
            "usage",
            {
                "model": str(answered.model),
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
                "cost_usd": cost,
            },
        )

    def _step(
        self,
        session: Session,
        model: Model,
        request: Request,
        answered: Answered,
        began: float,
        cost: float | None,
    ) -> Step:
        turn = session.record.turn
        return Step(
            session=session.id,
            user=session.user,
            turn=turn.number if turn else session.record.turns,
            kind="model",
            name=str(model.ref),
            began_at=began,
            ended_at=time.time(),
            input=_bytes(self._told(session, request)),
            output=_bytes(answer_to_json(answered)),
            model=str(answered.model),
            usage=answered.usage,
            cost_usd=cost,
            facts={"stop": answered.stop},
        )

    def _told(self, session: Session, request: Request) -> dict[str, Any]:
        """All messages by their hashes; in full those that no call before had: a long session is recorded once."""
        forms = [message_form.to_json(message) for message in request.messages]
        known = min(self._recorded.get(session.id, 0), len(forms))
        self._recorded[session.id] = len(forms)
        return {
            "system": request.system,
            "tools": [tool.name for tool in request.tools],
            "choice": request.choice,
            "schema": dict(request.schema.schema) if request.schema else None,
            "thinking": request.thinking,
            "max_output_tokens": request.max_output_tokens,
            "messages": [hashlib.sha256(_bytes(form)).hexdigest() for form in forms],
            "new": forms[known:],
        }

    async def _pictures(
        self, session: Session, messages: tuple[Message, ...]
    ) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for message in messages:
            for picture in _pictures_of(message):
                data = await self._parts.recorder.blob(session.id, picture.blob)
                if data is not None:
                    found[picture.blob] = data
        return found


def answer_to_json(answered: Answered) -> dict[str, Any]:
    """As it is recorded, and fed to a replay."""
    return {
        "message": message_form.to_json(answered.message),
        "stop": answered.stop,
        "model": {"provider": answered.model.provider, "name": answered.model.name},
        "usage": {
            "input_tokens": answered.usage.input_tokens,
            "output_tokens": answered.usage.output_tokens,
            "cache_read_tokens": answered.usage.cache_read_tokens,
            "cache_write_tokens": answered.usage.cache_write_tokens,
        },
    }


async def _last(model: Model, request: Request) -> Answered:
    async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
        async for event in events:
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


def _tell_object(session: Session, turn: Turn, shown: Any) -> Any:
    if turn.shape is None:
        return None
    value = read_partial(turn.draft.text)
    if value is None or value == shown:
        return shown
    session.tell("object", {"value": value, "whole": False})
    return value


def _pictures_of(message: Message) -> tuple[Picture, ...]:
    match message:
        case UserMessage():
            return message.pictures
        case ToolMessage():
            return tuple(picture for result in message.results for picture in result.pictures)
        case _:
            return ()


def _bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
