"""Memory as the engine uses it, and the ledger as memory uses it."""

from __future__ import annotations

import time

from crucible.agent.seams import Recalled, Recollection, Recorder, Step
from crucible.errors import RunMissing
from crucible.ledger.ledger import Ledger
from crucible.memory.memory import Memory

_ROOM_TOKENS = 800


class SessionMemory:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def recall(self, user: str, session: str, text: str) -> Recollection:
        found = await self._memory.recall(user, text, _ROOM_TOKENS, session=session)
        facts = tuple(
            Recalled(id=item.fact.id, text=item.fact.text, reason=str(item.reason))
            for item in found.items
        )
        return Recollection(text=found.text, facts=facts)

    async def learn(self, user: str, session: str, turn: int, text: str) -> tuple[str, ...]:
        changes = await self._memory.extract_turn(user, session, turn, text)
        return tuple(change.fact.text for change in changes)


class MemoryEntries:
    """Memory's own `Recorder` and `Eraser`. A blob is known by its session, too: each run has contents of its own."""

    def __init__(self, recorder: Recorder, ledger: Ledger) -> None:
        self._recorder = recorder
        self._ledger = ledger

    async def record(
        self, *, user: str, session: str, turn: int, action: str, content: bytes
    ) -> str:
        now = time.time()
        blob = await self._recorder.record(
            Step(
                session=session or _run_of(user),
                user=user,
                turn=turn,
                kind="memory",
                name=action,
                began_at=now,
                ended_at=now,
                output=content,
            )
        )
        return f"{session or _run_of(user)}:{blob}"

    async def erase(self, blob: str) -> None:
        session, _, name = blob.partition(":")
        try:
            await self._ledger.erase(session, [name], reason="forgotten")
        except RunMissing:
            return


def _run_of(user: str) -> str:
    """What users have written down outside of a session."""
    import hashlib

    return f"memory-{hashlib.sha256(user.encode()).hexdigest()[:16]}"
