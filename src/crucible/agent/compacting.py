"""Compacts a session's messages with its model; where the model fails, the oldest are dropped with a note."""

from __future__ import annotations

from dataclasses import replace

from crucible.agent.asking import Asker
from crucible.agent.compaction import (
    Cut,
    choose_cut,
    dropped_note,
    in_parts,
    is_pinned,
    joined,
    limit_of,
    room_for_recent,
    summary_before,
)
from crucible.agent.facts import ContextUsage
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.messages import UserMessage
from crucible.agent.models.base import Model, Request
from crucible.agent.parts import Parts
from crucible.agent.prompts import SUMMARY
from crucible.agent.session import Session
from crucible.agent.tokens import estimate, estimate_messages
from crucible.agent.turn import Turn
from crucible.errors import CrucibleError, ModelError
from crucible.memory.summaries import keepable_summary

_SUMMARY_TOKENS = 1500


class Compactor:
    def __init__(self, parts: Parts, asker: Asker) -> None:
        self._parts = parts
        self._asker = asker

    async def make_room(self, session: Session, turn: Turn, model: Model) -> None:
        """Compacts if the model's context is nearly full."""
        if _used_tokens(session) > limit_of(model.profile):
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
        before = _used_tokens(session)
        summary, how = await self._summary(session, model, cut)
        messages = joined(cut, summary)
        self._asker.forget(session.id)
        fewer = len(session.messages) - len(messages)
        # Checkpoints name places in messages that are gone now.
        await session.replace_messages(
            messages,
            moments=(),
            turn=_moved(session.record.turn, fewer),
            left=_moved(session.record.left, fewer),
        )
        session.tell(
            "compacted",
            {
                "how": how,
                "replaced": cut.replaced,
                "pinned": len(cut.pinned),
                "tokens_before": before,
                "tokens_after": _used_tokens(session),
            },
        )
        await session.write()
        if how == "summary":
            await self._keep(session, cut.replaced, summary)
        return True

    async def _summary(self, session: Session, model: Model, cut: Cut) -> tuple[str, str]:
        """The one before with what came after it folded in, part by part."""
        text = summary_before(cut.old)
        window = model.profile.context_tokens
        room = window - 2 * _most_written(model) - estimate(SUMMARY) - 64
        for part in in_parts(cut.old, max(room, 256)):
            try:
                folded = await self._fold(session, model, text, part)
            except ModelError as error:
                session.tell("notice", {"text": f"No summary could be had: {error.message}"})
                folded = ""
            if not folded:
                return f"{text}\n\n{dropped_note(cut)}".strip(), "dropped"
            text = folded
        return text, "summary"

    async def _fold(self, session: Session, model: Model, text: str, part: str) -> str:
        told = f"Summary so far:\n{text}\n\nMessages after it:\n{part}" if text else part
        request = Request(
            system=SUMMARY,
            messages=(UserMessage(text=told),),
            max_output_tokens=min(_most_written(model), model.profile.output_tokens),
        )
        answered = await self._asker.ask_quietly(
            session, model, request, purpose="summary", turn=_number(session)
        )
        return keepable_summary(answered.message.text)

    async def _keep(self, session: Session, covers: int, text: str) -> None:
        """For the user to see, who may want nothing to be remembered."""
        if not session.options.memory:
            return
        try:
            await self._parts.memory.summarized(session.user, session.id, covers=covers, text=text)
        except CrucibleError as error:
            session.tell("notice", {"text": f"The summary is not shown: {error.message}"})


def _most_written(model: Model) -> int:
    return min(_SUMMARY_TOKENS, model.profile.context_tokens // 4)


def _moved(turn: OpenTurn | None, by: int) -> OpenTurn | None:
    """Its own messages begin earlier now; those of them that were compacted are told by the summary."""
    return replace(turn, began_with=max(1, turn.began_with - by)) if turn else None


def _number(session: Session) -> int:
    return session.record.turn.number if session.record.turn else session.record.turns


def context_usage(session: Session, model: Model) -> ContextUsage:
    return ContextUsage(
        model=str(model.ref),
        used_tokens=_used_tokens(session),
        limit_tokens=model.profile.context_tokens,
        messages=len(session.messages),
        pinned=sum(1 for message in session.messages if is_pinned(message)),
        compacts_at=limit_of(model.profile),
    )


def _used_tokens(session: Session) -> int:
    """What the last call of its model has counted and, by estimate, what came since."""
    record = session.record
    if not record.context_tokens:
        return estimate_messages(session.messages) + estimate(session.options.system)
    known = min(record.context_messages, len(session.messages))
    return record.context_tokens + estimate_messages(session.messages[known:])
