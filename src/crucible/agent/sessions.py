"""Every session of one engine: those that are kept, and of these the ones that are in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from crucible.agent.asking import Asker
from crucible.agent.deeds import born
from crucible.agent.facts import SessionFacts
from crucible.agent.keeping.base import Kept, SessionRecord
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.seams import PerUser
from crucible.agent.session import Session, facts_of, new_record, state_at_rest
from crucible.errors import CrucibleError, EngineClosed, SessionBusy, SessionMissing


class Sessions:
    def __init__(self, parts: Parts, asker: Asker) -> None:
        self._parts = parts
        self._asker = asker
        self._held: dict[str, Session] = {}
        self._records: dict[str, SessionRecord] = {}
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def held(self) -> Iterator[Session]:
        """Those in memory."""
        yield from tuple(self._held.values())

    def ids(self) -> tuple[str, ...]:
        """In the order in which they were created."""
        return tuple(self._records)

    async def load(self) -> tuple[SessionRecord, ...]:
        """What is kept of all."""
        for record in await self._parts.store.list():
            self._records[record.id] = record
        return tuple(self._records.values())

    def refuse_new(self) -> None:
        """From now on nothing begins."""
        self._is_closing = True

    async def close(self) -> None:
        for session in self._held.values():
            with contextlib.suppress(CrucibleError):
                await session.leave_workplace(keep=True)
            await session.close()
        self._held.clear()

    def facts(self, session: str) -> SessionFacts:
        """Raises SessionMissing."""
        record = self._records.get(session)
        if record is None:
            raise SessionMissing(session[:64])
        held = self._held.get(session)
        return held.facts() if held else facts_of(record, state_at_rest(record))

    def facts_of_all(self, user: str | None) -> tuple[SessionFacts, ...]:
        return tuple(
            self.facts(record.id)
            for record in self._records.values()
            if user is None or record.options.user == user
        )

    async def find(self, session: str) -> Session:
        """Raises SessionMissing."""
        found = self._held.get(session)
        if found is not None:
            return found
        if session not in self._records:
            raise SessionMissing(session[:64])
        # Asked for first: what is forgotten meanwhile is noticed later.
        forgotten = await self._parts.memory.forgotten(self._records[session].options.user)
        kept = await self._parts.store.load(session)
        # Another may have been quicker.
        return self._held.get(session) or self._take_up(kept, forgotten)

    async def add(
        self, session_id: str, options: SessionOptions, *, parent: str = "", step: int = 0
    ) -> Session:
        """Under this id, without asking hooks. `step` of the parent is where it begins."""
        if self._is_closing:
            raise EngineClosed
        record = new_record(session_id, options, parent=parent)
        await self._parts.store.save(record)
        forgotten = await self._parts.memory.forgotten(options.user)
        session = self._take_up(Kept(record=record, messages=(), last_event=0), forgotten)
        await self._parts.recorder.record(born(session, step))
        return session

    def drop(self, session: str) -> None:
        """It is kept no more."""
        self._held.pop(session, None)
        self._records.pop(session, None)

    @contextlib.asynccontextmanager
    async def idle(self, session: Session) -> AsyncIterator[None]:
        """Holds off whoever else would change a session that has no turn. Raises SessionBusy."""
        if self._is_closing:
            raise EngineClosed
        ending = session.turn
        if ending is not None and session.record.turn is None:
            # Its end is told, and about to be written: whoever has heard it may go on.
            await ending.wait()
        if session.turn is not None or session.changing.locked():
            raise SessionBusy(session.id)
        async with session.changing:
            if (forgotten := await self.forgotten_since(session)) is not None:
                await session.read_again(forgotten)
                self._asker.forget(session.id)
            yield

    async def forgotten_since(self, session: Session) -> int | None:
        """By this program or another; None if what is held here is what is kept."""
        forgotten = await self._parts.memory.forgotten(session.user)
        return forgotten if forgotten != session.forgotten else None

    def check(self, options: SessionOptions) -> None:
        """Whether everything it names is there: better now than in the middle of a turn."""
        self._parts.workplaces.check(options)
        self._parts.judge.check(options.policy)
        for model in options.models.values():
            self._parts.models.parse(model)

    async def prepare(self, user: str) -> None:
        """Their models are as they have them set."""
        if isinstance(self._parts.models, PerUser):
            await self._parts.models.prepare(user)

    def _take_up(self, kept: Kept, forgotten: int) -> Session:
        session = Session(kept, self._parts.store, self._parts.workplaces, forgotten=forgotten)
        self._held[session.id] = session
        self._records[session.id] = kept.record
        return session
