"""Takes back turns: their messages are gone, their events are marked as taken back. The sandbox stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from crucible.agent.attaching import Attached, Placed, attached_from_json, kept_files
from crucible.agent.events import Event
from crucible.agent.messages import Message, Summary, UserMessage
from crucible.agent.parts import Parts
from crucible.agent.session import Session
from crucible.agent.transcripts import find_retractions, is_retracted
from crucible.agent.workplace import Rewinds
from crucible.errors import TurnCompacted, TurnMissing, TurnResumed

_MOST_TURNS = 10_000
SANDBOX_STAYS = (
    "The sandbox stays as it is: what the turns that were taken back did in it is still there."
)


async def retract(parts: Parts, session: Session, turn: int) -> tuple[str, ...]:
    """That turn and all after it. Returns what is to be told of it.

    Raises TurnMissing, TurnResumed or TurnCompacted; then nothing has changed.
    """
    at = await find_prompt(parts, session, turn)
    record = session.record
    later = [one for one in record.moments if one.messages > at]
    await session.replace_messages(
        session.messages[:at],
        moments=tuple(one for one in record.moments if one.messages <= at),
        steps=later[0].step - 1 if later else record.steps,
        left=None,
        last_end=None,
    )
    session.tell("retracted", {"from_turn": turn})
    await session.write()
    await parts.chronicler.retracted(session.id, turn)
    if later and isinstance(session.workplace, Rewinds):
        for one in later:
            await session.workplace.forget(one.checkpoint)
    return (SANDBOX_STAYS,) if record.place is not None else ()


async def find_prompt(parts: Parts, session: Session, turn: int) -> int:
    """The position of the message that it began with. Raises TurnMissing, TurnResumed or TurnCompacted."""
    prompted = (await find_run(parts, session, turn))[0]
    if prompted != turn:
        raise TurnResumed(session.id, turn, prompted)
    return _position_of(session, turn)


async def find_kept(parts: Parts, session: Session, turn: int, names: Sequence[str]) -> Placed:
    """Of the files that came with the prompt of a turn, those of these names.

    Raises TurnMissing, TurnResumed, TurnCompacted, or BadSetting for a name that none of them has.
    """
    said = session.messages[await find_prompt(parts, session, turn)]
    pictures = said.pictures if isinstance(said, UserMessage) else ()
    return kept_files(files_of(await find_turn(parts, session, turn)), pictures, names)


async def find_turn(parts: Parts, session: Session, turn: int) -> Event:
    """The event that it began with. Raises TurnMissing for one that never was, or was taken back."""
    await session.write()
    found = await parts.store.marks(session.id, "turn-began", before_turn=turn + 1, limit=1)
    if not found or found[0].turn != turn:
        raise TurnMissing(session.id, turn)
    if is_retracted(found[0], await find_retractions(parts.store, session.id)):
        raise TurnMissing(session.id, turn)
    return found[0]


async def find_run(parts: Parts, session: Session, turn: int) -> tuple[int, ...]:
    """All turns that its prompt led to: the one that began with it, and those that went on with that one."""
    await find_turn(parts, session, turn)
    retractions = await find_retractions(parts.store, session.id)
    found = await parts.store.marks(session.id, "turn-began", limit=_MOST_TURNS)
    runs: list[list[int]] = []
    for began in sorted(found, key=lambda one: one.number):
        if is_retracted(began, retractions):
            continue
        if runs and began.data.get("resumed"):
            runs[-1].append(began.turn)
        else:
            runs.append([began.turn])
    return next((tuple(run) for run in runs if turn in run), (turn,))


def _position_of(session: Session, turn: int) -> int:
    """Of the message that the turn began with. Raises TurnCompacted where that is no more."""
    for at, message in enumerate(session.messages):
        if _prompt_of(message) == turn and not _is_left_over(session.messages, at):
            return at
    raise TurnCompacted(session.id, turn)


def end_of(session: Session, run: tuple[int, ...]) -> int:
    """How many messages there were when the last turn of a run had ended. Raises TurnCompacted."""
    later = (at for at, one in enumerate(session.messages) if _prompt_of(one) > run[-1])
    end = next(later, len(session.messages))
    if run[-1] < session.record.turns:
        _position_of(session, run[0])
    return end


def last_prompt(session: Session) -> UserMessage:
    """What the user said last. Raises TurnMissing."""
    for message in reversed(session.messages):
        if isinstance(message, UserMessage) and message.turn:
            return message
    raise TurnMissing(session.id, session.record.turns)


def files_of(began: Event) -> tuple[Attached, ...]:
    return tuple(attached_from_json(one) for one in began.data.get("attachments", ()))


def _prompt_of(message: Message) -> int:
    return message.turn if isinstance(message, UserMessage) else 0


def _is_left_over(messages: Sequence[Message], at: int) -> bool:
    """Pinned, and all around it was compacted: what followed it is in the summary."""
    before = at
    while before and getattr(messages[before], "is_pinned", False):
        before -= 1
    return before < at and isinstance(messages[before], Summary)
