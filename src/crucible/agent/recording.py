"""Writes the engine's steps into the ledger: a run for each session, an entry for each step."""

from __future__ import annotations

from collections.abc import Mapping

from crucible.agent.seams import Step, StepKind
from crucible.errors import ContentGone, LedgerBroken, RunMissing, RunTaken
from crucible.ledger.ledger import Ledger, Recorded
from crucible.ledger.steps import MAX_WORD, Kind
from crucible.ledger.steps import Step as Entered

_KINDS: Mapping[StepKind, Kind] = {
    "session": Kind.SESSION,
    "prompt": Kind.SESSION,
    "turn": Kind.SESSION,
    "model": Kind.MODEL_CALL,
    "model-failed": Kind.MODEL_CALL,
    "budget": Kind.BUDGET,
    "tool": Kind.TOOL_CALL,
    "artifact": Kind.TOOL_CALL,
    "approval": Kind.APPROVAL,
    "policy": Kind.POLICY_DECISION,
    "hook": Kind.HOOK,
    "memory": Kind.MEMORY_WRITE,
    "configured": Kind.SESSION,
    "rewound": Kind.REWIND,
    "cleared": Kind.SESSION,
    "compacted": Kind.COMPACTION,
    "pinned": Kind.SESSION,
    "retracted": Kind.REWIND,
    "attached": Kind.SESSION,
}


class LedgerRecorder:
    """What cannot be recorded ends the turn: nothing is done that leaves no trace."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def record(self, *steps: Step) -> str:
        """All of one session."""
        first = steps[0]
        recorded = [
            Recorded(step=entry_of(step), input=step.input or None, output=step.output or None)
            for step in steps
        ]
        try:
            entries = await self._ledger.append_all(first.session, recorded)
        except RunMissing:
            await self._open(first)
            entries = await self._ledger.append_all(first.session, recorded)
        return entries[-1].output or ""

    async def blob(self, session: str, name: str) -> bytes | None:
        try:
            return await self._ledger.blob(session, name)
        except (ContentGone, LedgerBroken):
            return None

    async def _open(self, step: Step) -> None:
        try:
            await self._ledger.open_run(step.session, {"of": "agent"}, user=step.user)
        except RunTaken:
            # Another step of the same session was quicker.
            return


def entry_of(step: Step) -> Entered:
    place = step.place
    cost = step.cost_usd
    return Entered(
        kind=_KINDS[step.kind],
        started_us=int(step.began_at * 1e6),
        duration_us=max(0, int((step.ended_at - step.began_at) * 1e6)),
        tokens_in=step.usage.input_tokens,
        tokens_out=step.usage.output_tokens,
        tokens_cached=step.usage.cache_read_tokens,
        cost_micros=round(cost * 1e6) if cost is not None else None,
        model=_word(step.model),
        sandbox=_word(place.sandbox) if place else "",
        image=_word(place.image_digest) if place else "",
        isolation=_word(place.isolation) if place else "",
        exit_status=step.exit_status,
        facts={
            "step": step.kind,
            "name": _word(step.name),
            "turn": step.turn,
            "error": step.is_error,
            **step.facts,
        },
    )


def _word(text: str) -> str:
    shown = "".join(one if one.isprintable() else "?" for one in text[:MAX_WORD])
    return shown.encode(errors="replace").decode()
