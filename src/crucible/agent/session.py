"""A session in memory: its head, its messages, its journal, its workplace, and the turn under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crucible.agent.events import Event, Kind
from crucible.agent.facts import SessionFacts, State
from crucible.agent.journal import Journal
from crucible.agent.keeping.base import Kept, SessionRecord, SessionStore
from crucible.agent.messages import Message
from crucible.agent.options import SessionOptions
from crucible.agent.seams import Workplaces
from crucible.agent.workplace import Workplace
from crucible.errors import CrucibleError

if TYPE_CHECKING:
    from crucible.agent.turn import Turn


class Session:
    """One engine holds it. Only its turn changes messages while there is one."""

    def __init__(
        self, kept: Kept, store: SessionStore, workplaces: Workplaces, *, forgotten: int
    ) -> None:
        self._workplaces = workplaces
        self._workplace: Workplace | None = None
        self.record = kept.record
        self.messages = list(kept.messages)
        self.turn: Turn | None = None
        self.changing = asyncio.Lock()
        self._store = store
        self.forgotten = forgotten
        self.journal = Journal(
            store,
            session=kept.record.id,
            head=self._head,
            messages=len(kept.messages),
            # What was promised may have been seen, though it was never written.
            last_event=max(kept.last_event, kept.record.last_event),
        )

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def options(self) -> SessionOptions:
        return self.record.options

    @property
    def user(self) -> str:
        return self.record.options.user

    @property
    def state(self) -> State:
        # One whose end is told is over, though it may still be written down.
        if self.turn is not None and self.record.turn is not None:
            return "waiting" if self.record.approvals else "busy"
        return state_at_rest(self.record)

    @property
    def workplace(self) -> Workplace:
        if self._workplace is None:
            self._workplace = self._workplaces.workplace(
                self.id, self.options, had_sandbox=self.record.place is not None
            )
        return self._workplace

    def facts(self) -> SessionFacts:
        return facts_of(self._head(), self.state)

    def tell(self, kind: Kind, data: Mapping[str, Any]) -> Event:
        turn = self.record.turn.number if self.record.turn else self.record.turns
        return self.journal.tell(turn, kind, data)

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.journal.add(message)

    def change(self, **changes: Any) -> None:
        """Changes the head; written with the next that is written."""
        self.record = replace(self.record, **changes)
        self.journal.head_changed()

    async def write(self) -> None:
        await self.journal.write()

    async def replace_messages(self, messages: list[Message], **changes: Any) -> None:
        """All messages anew, the old ones are gone."""
        await self.journal.write()
        self.messages = messages
        self.record = replace(
            self.record, **{"context_tokens": 0, "context_messages": 0, **changes}
        )
        await self.journal.rewrite(messages)

    async def read_again(self, forgotten: int) -> None:
        """Somebody has taken words out of what is kept of it; the places are the same."""
        await self.journal.write()
        self.messages = list((await self._store.load(self.id)).messages)
        await self.journal.let_go()
        self.forgotten = forgotten

    def note_place(self) -> None:
        """Keeps the name of the sandbox once there is one, so that another process finds it again."""
        place = self._workplace.place if self._workplace is not None else None
        if place is not None and place != self.record.place:
            self.change(place=place)

    def give_workplace(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self.note_place()

    async def leave_workplace(self, *, keep: bool) -> None:
        """Also removes a sandbox from before that was not needed since, or of which nothing is kept: a program may have
        died between opening it and writing that down."""
        if self._workplace is None and keep:
            return
        is_known = self._workplace is not None or self.record.place is not None
        try:
            await self.workplace.close(keep=keep)
        except CrucibleError:
            # Where no sandbox can be, there is most likely none.
            if is_known:
                raise
        self._workplace = None

    async def close(self) -> None:
        await self.journal.close()

    def _head(self) -> SessionRecord:
        return replace(
            self.record, messages=len(self.messages), last_event=self.journal.last_number
        )


def facts_of(record: SessionRecord, state: State) -> SessionFacts:
    return SessionFacts(
        id=record.id,
        options=record.options,
        state=state,
        created_at=record.created_at,
        used_at=record.used_at,
        turns=record.turns,
        messages=record.messages,
        last_event=record.last_event,
        usage=record.usage,
        cost_usd=record.cost_usd,
        is_cost_whole=record.is_cost_whole,
        place=record.place,
        approvals=tuple(approval.id for approval in record.approvals),
        parent=record.parent,
    )


def state_at_rest(record: SessionRecord) -> State:
    """Of a session without a turn."""
    return "interrupted" if record.last_end == "interrupted" else "idle"


def new_record(session: str, options: SessionOptions, *, parent: str = "") -> SessionRecord:
    now = time.time()
    return SessionRecord(id=session, options=options, created_at=now, used_at=now, parent=parent)
