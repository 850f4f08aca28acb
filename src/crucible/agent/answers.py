"""What a turn came to: for its caller, as an event, and as a step of the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from crucible.agent.facts import Answer
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.messages import AssistantMessage
from crucible.agent.models.base import Usage
from crucible.agent.seams import Step
from crucible.agent.session import Session
from crucible.agent.turn import Came, Turn


def answer_of(
    session: Session, turn: Turn, open_turn: OpenTurn, came: Came, error: Mapping[str, Any]
) -> Answer:
    own = session.messages[min(open_turn.began_with, len(session.messages)) :]
    said = [message for message in own if isinstance(message, AssistantMessage)]
    last = said[-1] if said else None
    return Answer(
        session=session.id,
        turn=open_turn.number,
        text=last.text if last else "",
        calls=tuple(call for message in said for call in message.calls),
        usage=open_turn.usage,
        cost_usd=open_turn.cost_usd,
        is_cost_whole=open_turn.is_cost_whole,
        end=came.end,
        intent=turn.intent,
        model=last.model if last else "",
        value=came.value,
        error=error,
    )


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """As the event `turn-ended` tells it."""
    return {
        "end": answer.end,
        "text": answer.text,
        "value": answer.value,
        "intent": answer.intent,
        "model": answer.model,
        "calls": [{"call": call.id, "tool": call.name} for call in answer.calls],
        "usage": usage_to_json(answer.usage),
        "cost_usd": answer.cost_usd,
        "is_cost_whole": answer.is_cost_whole,
        "error": dict(answer.error),
    }


def usage_to_json(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }


def step_of(session: Session, open_turn: OpenTurn, answer: Answer) -> Step:
    """Its end, for the ledger."""
    return Step(
        session=session.id,
        user=session.user,
        turn=open_turn.number,
        kind="turn",
        name=answer.end,
        began_at=open_turn.began_at,
        ended_at=time.time(),
        usage=answer.usage,
        cost_usd=answer.cost_usd if answer.is_cost_whole else None,
        place=session.record.place,
        is_error=answer.end != "done",
        facts={"end": answer.end, "intent": answer.intent, "iterations": open_turn.iterations},
    )
