"""A call of a model as an entry of the ledger: what it was told and what it answered.

A long conversation is recorded once: each call has in full only the messages that no call before it had. Of those that
one had there is the number and no hash, so that what was erased cannot be guessed from what stays.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from crucible.agent import messages as message_form
from crucible.agent.models.base import Answered, Model, ModelRef, Request
from crucible.agent.models.persistent import may_have_cost
from crucible.agent.seams import Step
from crucible.agent.session import Session

OwnPurpose = Literal["summary", "memory"]
# A budget that allowed no call, and a call that came to no answer.
NoAnswer = Literal["budget", "model-failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`turn` is the one that it is for, which may be over; `purpose` is empty for what the user asked."""

    turn: int
    purpose: OwnPurpose | Literal[""] = ""
    began_at: float

    @property
    def is_own(self) -> bool:
        return bool(self.purpose)


class CallRecords:
    """Of one engine."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def step(
        self,
        session: Session,
        model: Model,
        call: Call,
        request: Request,
        answered: Answered,
        *,
        ended_at: float,
        cost: float | None,
    ) -> Step:
        facts = {"stop": answered.stop} | ({"purpose": call.purpose} if call.is_own else {})
        return Step(
            session=session.id,
            user=session.user,
            turn=call.turn,
            kind="model",
            name=str(model.ref),
            began_at=call.began_at,
            ended_at=ended_at,
            input=_bytes(
                {**self._request(session.id, call, request), "profile": asdict(model.profile)}
            ),
            output=_bytes(answer_to_json(answered)),
            model=str(answered.model),
            usage=answered.usage,
            cost_usd=cost,
            facts=facts,
        )

    def failed(
        self,
        kind: NoAnswer,
        session: Session,
        model: Model,
        call: Call,
        asked: ModelRef,
        error: BaseException,
        *,
        ended_at: float,
    ) -> Step:
        """What it cost, where it may have cost something, nobody knows."""
        code = getattr(error, "code", "")
        return Step(
            session=session.id,
            user=session.user,
            turn=call.turn,
            kind=kind,
            name=str(model.ref),
            began_at=call.began_at,
            ended_at=ended_at,
            model=str(asked),
            cost_usd=None if kind == "model-failed" and may_have_cost(error) else 0.0,
            is_error=True,
            facts={"code": code or "cancelled"}
            | ({"purpose": call.purpose} if call.is_own else {}),
        )

    def forget(self, session: str) -> None:
        """Its messages are others now: the next call is recorded with all of them."""
        self._told.pop(session, None)

    def _request(self, session: str, call: Call, request: Request) -> dict[str, Any]:
        known = 0 if call.is_own else min(self._told.get(session, 0), len(request.messages))
        if not call.is_own:
            self._told[session] = len(request.messages)
        return {
            "system": request.system,
            "tools": [tool.name for tool in request.tools],
            "choice": request.choice,
            "schema": dict(request.schema.schema) if request.schema else None,
            "thinking": request.thinking,
            "max_output_tokens": request.max_output_tokens,
            "before": known,
            "new": [message_form.to_json(message) for message in request.messages[known:]],
        }


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


def _bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
