"""Steps as checkpoints: the sandbox before each step is kept where the session asked for it, to be gone back to."""

from __future__ import annotations

from crucible.agent.keeping.base import Moment
from crucible.agent.messages import Message
from crucible.agent.session import Session
from crucible.agent.workplace import Rewinds, Workplace
from crucible.errors import CrucibleError, StepMissing, Unsupported


class Checkpoints:
    async def take(self, session: Session) -> None:
        """Before the calls of a step run. A failure is told and keeps nothing from going on."""
        wish = session.options.checkpoints
        if not wish.is_on:
            return
        workplace = session.workplace
        if not isinstance(workplace, Rewinds):
            session.tell("notice", {"text": "This sandbox cannot be snapshot: steps are not kept."})
            return
        try:
            await workplace.open()
            taken = await workplace.checkpoint()
        except CrucibleError as error:
            session.tell("notice", {"text": f"No checkpoint was taken: {error.message}"})
            return
        session.note_place()
        moment = Moment(
            step=session.record.steps + 1,
            messages=len(session.messages),
            checkpoint=taken.id,
            taken_at=taken.taken_at,
            bytes=taken.bytes,
        )
        moments = (*session.record.moments, moment)
        session.change(moments=moments[-wish.keep :])
        session.tell(
            "checkpoint",
            {
                "step": moment.step,
                "checkpoint": taken.id,
                "bytes": taken.bytes,
                "duration_s": taken.duration_s,
                "kept": min(len(moments), wish.keep),
            },
        )
        for old in moments[: -wish.keep]:
            await workplace.forget(old.checkpoint)

    async def rewind(self, session: Session, steps: int) -> int:
        """Back to before the last `steps` steps: sandbox and messages. The step that would come next.

        Where the sandbox cannot be taken back, nothing has changed.
        """
        moment = _moment(session, session.record.steps - steps + 1)
        workplace = _rewinding(session)
        await workplace.rewind(moment.checkpoint)
        later = tuple(one for one in session.record.moments if one.step > moment.step)
        earlier = tuple(one for one in session.record.moments if one.step < moment.step)
        messages = session.messages[: moment.messages]
        await session.replace_messages(
            messages, moments=earlier, steps=moment.step - 1, last_end="interrupted"
        )
        session.tell(
            "rewound", {"steps": steps, "next_step": moment.step, "messages": len(messages)}
        )
        await session.write()
        for one in (*later, moment):
            await workplace.forget(one.checkpoint)
        return moment.step

    async def branch(
        self, session: Session, step: int, *, other: str
    ) -> tuple[Workplace, list[Message]]:
        """What the session `other`, which begins before `step`, has."""
        moment = _moment(session, step)
        workplace = await _rewinding(session).branch(moment.checkpoint, session=other)
        return workplace, session.messages[: moment.messages]

    async def forget_all(self, session: Session) -> None:
        moments = session.record.moments
        if moments and isinstance(session.workplace, Rewinds):
            for moment in moments:
                await session.workplace.forget(moment.checkpoint)


def _moment(session: Session, step: int) -> Moment:
    moments = session.record.moments
    for moment in moments:
        if moment.step == step:
            return moment
    if not session.options.checkpoints.is_on:
        raise StepMissing(
            f"Session {session.id!r} keeps no checkpoints",
            hint="Turn them on when the session is created, or with `configure`",
        )
    known = f"steps {moments[0].step} to {moments[-1].step}" if moments else "none yet"
    raise StepMissing(f"There is no checkpoint of step {step} of session {session.id!r}: {known}")


def _rewinding(session: Session) -> Rewinds:
    workplace = session.workplace
    if not isinstance(workplace, Rewinds):
        raise Unsupported("This session's sandbox cannot be snapshot")
    return workplace
