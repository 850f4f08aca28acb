"""What a page shows of a session when it is opened: the kept events of the newest turns, pieces put together.

Whoever follows the session's events after `last_event` misses none and sees none twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from crucible.agent.events import Event
from crucible.agent.facts import MOST_TURNS, Following, Transcript
from crucible.agent.keeping.base import SessionStore
from crucible.agent.session import Session

# Of turns that told very much, fewer are shown at once.
_MOST_EVENTS = 20_000
_MOST_RETRACTED = 10_000
_PAGE = 2000
_PIECES = ("text", "thinking", "output")


async def read_transcript(
    session: Session, store: SessionStore, *, turns: int, before_turn: int | None = None
) -> Transcript:
    """Turns that were taken back are left out."""
    # All of one moment: what is told from here on is for who follows.
    last, state = session.journal.last_number, session.state
    turn = session.record.turn
    await session.write()
    retractions = await find_retractions(store, session.id)
    shown, has_more = await _newest_turns(store, session.id, retractions, turns, before_turn)
    events: tuple[Event, ...] = ()
    if shown or before_turn is None:
        after = shown[-1].number - 1 if has_more else 0
        found = [
            event
            async for event in _between(store, session.id, after, last, before_turn)
            if not is_retracted(event, retractions)
        ]
        events = tuple(joined(found))
    is_open = turn is not None and shown and shown[0].turn == turn.number
    return Transcript(
        events=events,
        first_turn=shown[-1].turn if shown else 0,
        has_more=has_more,
        last_event=last,
        open_turn=Following(turn=shown[0].turn, after=shown[0].number - 1) if is_open else None,
        state=state,
    )


async def read_all(session: Session, store: SessionStore) -> AsyncGenerator[Event, None]:
    """Every turn that was not taken back, without holding all of them at once."""
    last = session.journal.last_number
    await session.write()
    retractions = await find_retractions(store, session.id)
    pieces: list[Event] = []
    async for event in _between(store, session.id, 0, last, None):
        if is_retracted(event, retractions):
            continue
        pieces.append(event)
        if event.kind not in _PIECES:
            for one in joined(pieces):
                yield one
            pieces = []
    for one in joined(pieces):
        yield one


async def find_retractions(store: SessionStore, session: str) -> tuple[Event, ...]:
    return await store.marks(session, "retracted", limit=_MOST_RETRACTED)


def is_retracted(event: Event, retractions: Sequence[Event]) -> bool:
    return any(
        event.turn >= int(one.data["from_turn"]) and event.number <= one.number
        for one in retractions
    )


def joined(events: Iterable[Event]) -> Iterator[Event]:
    """Pieces of one text that follow each other as one event, which has the number of the last."""
    pieces: list[Event] = []
    for event in events:
        if pieces and _source(event) != _source(pieces[0]):
            yield _one(pieces)
            pieces = []
        pieces.append(event)
        if event.kind not in _PIECES:
            yield _one(pieces)
            pieces = []
    if pieces:
        yield _one(pieces)


def _source(event: Event) -> tuple[Any, ...]:
    data = event.data
    return (event.kind, event.turn, data.get("call"), data.get("channel"))


def _one(pieces: list[Event]) -> Event:
    if len(pieces) == 1:
        return pieces[0]
    text = "".join(str(one.data.get("text", "")) for one in pieces)
    return replace(pieces[0], number=pieces[-1].number, data={**pieces[0].data, "text": text})


async def _newest_turns(
    store: SessionStore,
    session: str,
    retractions: Sequence[Event],
    turns: int,
    before_turn: int | None,
) -> tuple[list[Event], bool]:
    """The first event of each, the newest first; and whether there are older ones."""
    wanted = max(1, min(turns, MOST_TURNS))
    found: list[Event] = []
    before = before_turn
    while len(found) <= wanted:
        page = await store.marks(session, "turn-began", before_turn=before, limit=wanted + 1)
        found += [one for one in page if not is_retracted(one, retractions)]
        if len(page) <= wanted:
            break
        before = page[-1].turn
    shown = [one for one in found[:wanted] if found[0].number - one.number < _MOST_EVENTS]
    return shown, len(found) > len(shown)


async def _between(
    store: SessionStore, session: str, after: int, last: int, before_turn: int | None
) -> AsyncGenerator[Event, None]:
    while page := await store.events(session, after=after, limit=_PAGE):
        for event in page:
            after = event.number
            is_later = before_turn is not None and event.turn >= before_turn
            if event.number > last or (is_later and event.kind == "turn-began"):
                return
            if not is_later:
                yield event
