"""Memory as the engine uses it: what is known is recalled before a turn, what was said is learned after it."""

from __future__ import annotations

from collections.abc import Sequence

from crucible.agent.seams import Asks, Learned, Recalled, Recollection
from crucible.errors import CrucibleError
from crucible.memory.asking import ModelExtractor
from crucible.memory.facts import Candidate
from crucible.memory.memory import Memory
from crucible.memory.rules import find_facts

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

    async def summarized(self, user: str, session: str, *, covers: int, text: str) -> None:
        if text:
            await self._memory.keep_summary(user, session, covers=covers, text=text)
        else:
            await self._memory.drop_summary(user, session)

    async def forgotten(self, user: str) -> int:
        return await self._memory.forgotten(user)

    async def learn(
        self, user: str, session: str, turn: int, text: str, ask: Asks | None
    ) -> Learned:
        extractor = _AskedFirst(ask) if ask is not None else None
        changes = await self._memory.extract_turn(user, session, turn, text, extractor=extractor)
        why = extractor.failed if extractor else ""
        return Learned(
            facts=tuple(change.fact.text for change in changes),
            notice=f"Only fixed phrases were looked for to remember: {why}" if why else "",
        )


class _AskedFirst:
    """An extractor: a model, and fixed phrases where it fails. `failed` says why it did."""

    def __init__(self, ask: Asks) -> None:
        self._model = ModelExtractor(ask)
        self.failed = ""

    async def extract(self, words: str) -> Sequence[Candidate]:
        try:
            return await self._model.extract(words)
        except CrucibleError as error:
            self.failed = error.message
            return find_facts(words)
