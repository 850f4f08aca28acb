"""Memory as the engine uses it: what is known is recalled before a turn, what was said is learned after it."""

from __future__ import annotations

from crucible.agent.seams import Recalled, Recollection
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
