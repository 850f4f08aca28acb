"""Compacts a session's messages with its model; where the model fails, the oldest are dropped with a note."""

from __future__ import annotations

from dataclasses import replace

from crucible.agent.asking import Asker
from crucible.agent.compaction import (
    Cut,
    as_transcript,
    choose_cut,
    dropped_note,
    is_pinned,
    joined,
    limit_of,
    room_for_recent,
)
from crucible.agent.facts import ContextUsage
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.messages import UserMessage
from crucible.agent.models.base import Model, Request
from crucible.agent.prompts import SUMMARY
from crucible.agent.session import Session
from crucible.agent.tokens import estimate, estimate_messages
from crucible.agent.turn import Turn
from crucible.errors import ModelError

_SUMMARY_TOKENS = 1500


class Compactor:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def make_room(self, session: Session, turn: Turn, model: Model) -> None:
        """Compacts if the model's context is nearly full."""
        if context_usage(session, model).used_tokens > limit_of(model.profile):
            await self.compact(session, turn, model)

    async def compact(self, session: Session, turn: Turn, model: Model) -> bool:
        """False if there is nothing to gain. Raises BudgetSpent where not even a summary can be paid."""
        return await self._keep_recent(session, turn, model, room_for_recent(model.profile))

    async def shrink(self, session: Session, turn: Turn, model: Model) -> bool:
        """The same where the provider has said that it is too long, whatever we think of how much there is."""
        half = estimate_messages(session.messages) // 2
        room = min(half, room_for_recent(model.profile))
        return await self._keep_recent(session, turn, model, room)

    async def _keep_recent(self, session: Session, turn: Turn, model: Model, room: int) -> bool:
        cut = choose_cut(session.messages, room)
        if cut is None:
            return False
        before = context_usage(session, model).used_tokens
        summary, how = await self._summary(session, turn, model, cut)
        messages = joined(cut, summary)
        self._asker.forget(session.id)
        # Checkpoints name places in messages that are gone now.
        await session.replace_messages(
            messages,
            moments=(),
            turn=_moved(session.record.turn, len(session.messages) - len(messages)),
        )
        session.tell(
            "compacted",
            {
                "how": how,
                "replaced": cut.replaced,
                "pinned": len(cut.pinned),
                "tokens_before": before,
                "tokens_after": context_usage(session, model).used_tokens,
            },
        )
        await session.write()
        return True

    async def _summary(
        self, session: Session, turn: Turn, model: Model, cut: Cut
    ) -> tuple[str, str]:
        room = model.profile.context_tokens - _SUMMARY_TOKENS - estimate(SUMMARY) - 64
        request = Request(
            system=SUMMARY,
            messages=(UserMessage(text=as_transcript(cut.old, max(room, 256))),),
            max_output_tokens=min(_SUMMARY_TOKENS, model.profile.output_tokens),
        )
        try:
            answered = await self._asker.ask_quietly(
                session, model, request, purpose="summary", turn=_number(session)
            )
        except ModelError as error:
            session.tell("notice", {"text": f"No summary could be had: {error.message}"})
            return dropped_note(cut), "dropped"
        text = answered.message.text.strip()
        return (text, "summary") if text else (dropped_note(cut), "dropped")


def _moved(turn: OpenTurn | None, by: int) -> OpenTurn | None:
    """Its own messages begin earlier now; those of them that were compacted are told by the summary."""
    return replace(turn, began_with=max(1, turn.began_with - by)) if turn else None


def _number(session: Session) -> int:
    return session.record.turn.number if session.record.turn else session.record.turns


def context_usage(session: Session, model: Model) -> ContextUsage:
    record = session.record
    known = min(record.context_messages, len(session.messages))
    if record.context_tokens:
        used = record.context_tokens + estimate_messages(session.messages[known:])
    else:
        used = estimate_messages(session.messages) + estimate(session.options.system)
    return ContextUsage(
        model=str(model.ref),
        used_tokens=used,
        limit_tokens=model.profile.context_tokens,
        messages=len(session.messages),
        pinned=sum(1 for message in session.messages if is_pinned(message)),
        compacts_at=limit_of(model.profile),
    )
