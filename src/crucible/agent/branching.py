"""Another session that begins where a turn of this one ended: its messages, its events, a copy of its sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crucible.agent.events import Event
from crucible.agent.messages import Message, Picture, ToolMessage, UserMessage
from crucible.agent.parts import Parts
from crucible.agent.retracting import end_of, find_run
from crucible.agent.seams import Step
from crucible.agent.session import Session
from crucible.agent.workplace import Rewinds
from crucible.errors import CrucibleError

_PAGE = 500
FILES_OF_NOW = (
    "The sandbox is a copy of that of the conversation this one was branched from, as it is now."
)
NO_COPY = (
    "The sandbox could not be copied, so this conversation begins with an empty workspace: {why}"
)


async def find_branch(parts: Parts, session: Session, turn: int) -> tuple[int, ...]:
    """The turns that the branch ends with: turns that were resumed stay with what they went on with.

    Raises TurnMissing or TurnCompacted; then nothing has been made.
    """
    run = await find_run(parts, session, turn)
    end_of(session, run)
    return run


async def fill_branch(parts: Parts, session: Session, other: Session, run: tuple[int, ...]) -> None:
    """`other` is new and empty. What was handed over is copied, too: one can be deleted without the other."""
    turn = run[-1]
    blobs = await _copy_blobs(parts, session, other, turn)
    messages = [_renamed(one, blobs) for one in session.messages[: end_of(session, run)]]
    last = await _copy_events(parts, session, other, turn, blobs)
    other.journal.last_number = last
    await other.replace_messages(messages, turns=turn, last_end=None)
    notice = await _copy_sandbox(session, other)
    if notice:
        other.tell("notice", {"text": notice})
    await other.write()


async def _copy_sandbox(session: Session, other: Session) -> str:
    """What is to be told of it."""
    if session.record.place is None:
        return ""
    workplace = session.workplace
    if not isinstance(workplace, Rewinds):
        return NO_COPY.format(why="it cannot be snapshot.")
    try:
        await workplace.open()
        taken = await workplace.checkpoint()
        try:
            other.give_workplace(await workplace.branch(taken.id, session=other.id))
        finally:
            await workplace.forget(taken.id)
    except CrucibleError as error:
        return NO_COPY.format(why=f"{error.message}.")
    return FILES_OF_NOW


async def _copy_blobs(parts: Parts, session: Session, other: Session, turn: int) -> dict[str, str]:
    """The names that contents have in the ledger of the other."""
    names: dict[str, str] = {}
    for event in await parts.store.marks(
        session.id, "artifact", before_turn=turn + 1, limit=10_000
    ):
        await _copy_blob(parts, session, other, str(event.data["blob"]), event, names)
    for message in session.messages:
        for picture in _pictures(message):
            await _copy_blob(parts, session, other, picture.blob, None, names)
    return names


async def _copy_blob(
    parts: Parts,
    session: Session,
    other: Session,
    blob: str,
    event: Event | None,
    names: dict[str, str],
) -> None:
    if blob in names:
        return
    data = await parts.recorder.blob(session.id, blob)
    if data is None:
        return
    moment = event.at if event else other.record.created_at
    step = Step(
        session=other.id,
        user=other.user,
        turn=event.turn if event else 0,
        kind="attached",
        name=str(event.data["media_type"]) if event else "picture",
        began_at=moment,
        ended_at=moment,
        input=str(event.data["name"]).encode(errors="replace") if event else b"",
        output=data,
        facts={"of": session.id},
    )
    names[blob] = await parts.recorder.record(step)


async def _copy_events(
    parts: Parts, session: Session, other: Session, turn: int, blobs: Mapping[str, str]
) -> int:
    """The number of the last."""
    after = 0
    while page := await parts.store.events(session.id, after=after, limit=_PAGE):
        end = next((at for at, one in enumerate(page) if _is_later(one, turn)), len(page))
        copied = [replace(one, data=_renamed_data(one.data, blobs)) for one in page[:end]]
        if copied:
            after = copied[-1].number
            head = replace(other.record, last_event=after)
            await parts.store.append(head, first=0, messages=(), events=copied)
        if end < len(page):
            break
    return after


def _is_later(event: Event, turn: int) -> bool:
    return event.kind == "turn-began" and event.turn > turn


def _renamed_data(data: Mapping[str, Any], blobs: Mapping[str, str]) -> dict[str, Any]:
    changed = dict(data)
    if data.get("blob") in blobs:
        changed["blob"] = blobs[data["blob"]]
    if data.get("pictures"):
        changed["pictures"] = [
            {**one, "blob": blobs.get(one["blob"], one["blob"])} for one in data["pictures"]
        ]
    return changed


def _pictures(message: Message) -> tuple[Picture, ...]:
    if isinstance(message, UserMessage):
        return message.pictures
    if isinstance(message, ToolMessage):
        return tuple(one for result in message.results for one in result.pictures)
    return ()


def _renamed(message: Message, blobs: Mapping[str, str]) -> Message:
    def of(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(replace(one, blob=blobs.get(one.blob, one.blob)) for one in pictures)

    if isinstance(message, UserMessage):
        return replace(message, pictures=of(message.pictures))
    if isinstance(message, ToolMessage):
        results = tuple(replace(one, pictures=of(one.pictures)) for one in message.results)
        return ToolMessage(results=results)
    return message
