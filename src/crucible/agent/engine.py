"""The engine: every session of this program, and the turns in them. Turns live here, not in whoever watches them.

This is its face: `sessions.py` holds sessions, `prompting.py` begins turns, `changing.py` does what else people do.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from crucible.agent.approvals import Approvals
from crucible.agent.artifacts import find_artifacts, read_artifact
from crucible.agent.asking import Asker, choose_model
from crucible.agent.attaching import Placed
from crucible.agent.calling import Caller
from crucible.agent.changing import Changes, new_id
from crucible.agent.compacting import Compactor, context_usage
from crucible.agent.events import Event
from crucible.agent.facts import (
    Answer,
    Approval,
    ApprovalAnswer,
    ArtifactFacts,
    Attachment,
    ContextUsage,
    Health,
    Intent,
    LaneFacts,
    SessionFacts,
    Transcript,
)
from crucible.agent.hooking import ask_hooks
from crucible.agent.lanes import Lanes
from crucible.agent.loop import Loop
from crucible.agent.messages import Message, Picture
from crucible.agent.models.base import Purpose
from crucible.agent.options import SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.prompting import Prompting
from crucible.agent.replaying.record import Record, Replay
from crucible.agent.rewinding import Checkpoints
from crucible.agent.seams import Chronicler, models_of
from crucible.agent.session import Session
from crucible.agent.sessions import Sessions
from crucible.agent.transcripts import read_all, read_transcript
from crucible.agent.turn import Turn
from crucible.agent.turns import Turns
from crucible.errors import Unsupported

if TYPE_CHECKING:
    from crucible.agent.prompting import Wanted
    from crucible.agent.workplace import Workplace


class Engine:
    """`async with` it. Every verb may be called from any task of its loop."""

    def __init__(
        self, parts: Parts, *, lanes: Lanes | None = None, approvals: Approvals | None = None
    ) -> None:
        self._parts = parts
        self._lanes = lanes or Lanes(parts.lane_limits)
        self._approvals = approvals or Approvals(parts)
        asker, checkpoints = Asker(parts, self._lanes), Checkpoints()
        compactor = Compactor(parts, asker)
        caller = Caller(parts, self._lanes, self._approvals)
        turns = Turns(parts, Loop(parts, asker, caller, compactor, checkpoints))
        self._sessions = Sessions(parts, asker)
        self._prompting = Prompting(parts, self._lanes, self._sessions, asker, turns)
        self._changes = Changes(
            parts,
            self._sessions,
            self._prompting,
            asker=asker,
            compactor=compactor,
            checkpoints=checkpoints,
        )

    @property
    def chronicler(self) -> Chronicler:
        return self._parts.chronicler

    async def __aenter__(self) -> Engine:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Takes up what is kept: turns that waited for an approval wait on, others are marked as interrupted."""
        for record in await self._sessions.load():
            if record.turn is not None:
                await self._prompting.take_up(await self._sessions.find(record.id))

    async def close(self) -> None:
        """Ends what runs. Turns that wait for an approval wait on in the next engine; sandboxes are let go of."""
        self._sessions.refuse_new()
        await self._prompting.close()
        await self._parts.toolbox.close()
        await self._sessions.close()
        await self._parts.store.close()
        for close in self._parts.closing:
            await close()

    # Sessions

    async def create_session(self, options: SessionOptions | None = None) -> SessionFacts:
        wanted = options or SessionOptions()
        session_id = new_id()
        got = await ask_hooks(
            self._parts,
            "before-session",
            session=session_id,
            user=wanted.user,
            turn=0,
            data={"system": wanted.system, "model": wanted.models.get("agent", "")},
        )
        wanted = replace(wanted, system=str(got.get("system", wanted.system)))
        self._sessions.check(wanted)
        return (await self._sessions.add(session_id, wanted)).facts()

    async def add_session(
        self, session_id: str, options: SessionOptions, *, parent: str = "", step: int = 0
    ) -> Session:
        """Under this id, without asking hooks. `step` of the parent is where it begins."""
        return await self._sessions.add(session_id, options, parent=parent, step=step)

    async def sessions(self, user: str | None = None) -> tuple[SessionFacts, ...]:
        """In the order in which they were created."""
        async with self._lanes.enter("query"):
            return self._sessions.facts_of_all(user)

    async def all_ids(self) -> tuple[str, ...]:
        return self._sessions.ids()

    async def session(self, session: str) -> SessionFacts:
        """Raises SessionMissing, as every verb that names a session."""
        async with self._lanes.enter("query"):
            return self._sessions.facts(session)

    async def configure(self, session: str, changes: Mapping[str, Any]) -> SessionFacts:
        """Holds from the next step on, also of a turn under way."""
        return await self._changes.configure(session, changes)

    async def destroy(self, session: str) -> None:
        """Ends its turn, removes its sandbox and all that is kept of it. The ledger stays."""
        await self._changes.destroy(session)

    # Turns

    async def begin(
        self,
        session: str,
        prompt: str,
        *,
        pictures: tuple[Picture, ...] = (),
        schema: Wanted | None = None,
        intent: Intent | None = None,
        max_repairs: int = 2,
        attachments: tuple[Attachment, ...] | Placed = (),
        instead_of: int | None = None,
        kept: tuple[str, ...] = (),
    ) -> Turn:
        """Raises SessionBusy while the session has a turn. Of different sessions, model calls queue in a lane.

        Attachments are put into the workspace before the turn begins, unless they are there already. `instead_of` takes
        back that turn and all after it; of the files that came with its prompt, those that are `kept` come with this
        one, as they are in the workspace.
        """
        return await self._prompting.begin(
            session,
            prompt,
            pictures=pictures,
            schema=schema,
            intent=intent,
            max_repairs=max_repairs,
            attachments=attachments,
            instead_of=instead_of,
            kept=kept,
        )

    async def retry(self, session: str) -> Turn:
        """The last prompt again, in the place of what came of it. Raises TurnMissing without one."""
        return await self._prompting.retry(session)

    async def resume(self, session: str) -> Turn:
        """Goes on with what an interrupted, cancelled or failed turn left. Raises NothingToResume."""
        return await self._prompting.resume(session)

    async def cancel(self, session: str) -> bool:
        """Returns when the turn has ended: its model call is left, its processes are gone. False without one."""
        return await self._prompting.cancel(session)

    async def retract(self, session: str, turn: int) -> None:
        """Takes back the messages of that turn and of all after it. Raises what `retracting` does."""
        await self._prompting.retract(session, turn)

    async def generate(self, session: str, prompt: str, **asked: Any) -> Answer:
        turn = await self.begin(session, prompt, **asked)
        return await turn.wait()

    async def stream(self, session: str, prompt: str, **asked: Any) -> AsyncGenerator[Event, None]:
        """The events of one turn. Who stops listening leaves the turn as it is."""
        turn = await self.begin(session, prompt, **asked)
        async for event in self.events(session, after=turn.first_event - 1):
            yield event
            if event.kind == "turn-ended" and event.turn == turn.number:
                return

    async def generate_object(
        self, session: str, prompt: str, schema: Wanted, *, max_repairs: int = 2
    ) -> Answer:
        """`value` of the answer is the object; with end `failed`, there is none of that shape."""
        return await self.generate(session, prompt, schema=schema, max_repairs=max_repairs)

    def stream_object(
        self, session: str, prompt: str, schema: Wanted, *, max_repairs: int = 2
    ) -> AsyncGenerator[Event, None]:
        """As `stream`; `object` events hold what is known of the object so far."""
        return self.stream(session, prompt, schema=schema, max_repairs=max_repairs)

    async def events(self, session: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """First those that are kept, then those to come, until the session is destroyed or the engine closed."""
        found = await self._sessions.find(session)
        if await self._sessions.forgotten_since(found) is not None:
            await found.journal.let_go()
        async with contextlib.aclosing(found.journal.watch(max(0, after))) as events:
            async for event in events:
                yield event

    async def transcript(
        self, session: str, *, turns: int, before_turn: int | None = None
    ) -> Transcript:
        """The newest turns, or those before one; `events` after its `last_event` goes on where it ends."""
        found = await self._sessions.find(session)
        return await read_transcript(found, self._parts.store, turns=turns, before_turn=before_turn)

    async def whole_transcript(self, session: str) -> AsyncGenerator[Event, None]:
        """All of it, the oldest first."""
        found = await self._sessions.find(session)
        async with contextlib.aclosing(read_all(found, self._parts.store)) as events:
            async for event in events:
                yield event

    # Context

    async def context_usage(self, session: str) -> ContextUsage:
        async with self._lanes.enter("query"):
            found = await self._sessions.find(session)
            await self._sessions.prepare(found.user)
            return context_usage(found, choose_model(self._parts, found, "agent"))

    async def history(self, session: str) -> tuple[Message, ...]:
        async with self._lanes.enter("query"):
            found = await self._sessions.find(session)
            if found.turn is None and await self._sessions.forgotten_since(found) is not None:
                return (await self._parts.store.load(session)).messages
            return tuple(found.messages)

    async def pin(self, session: str, position: int, *, is_pinned: bool = True) -> None:
        """What is pinned is kept word for word when the session is compacted."""
        await self._changes.pin(session, position, is_pinned=is_pinned)

    async def clear(self, session: str) -> None:
        """Forgets the conversation. The sandbox and the ledger stay."""
        await self._changes.clear(session)

    async def compact(self, session: str) -> bool:
        """By a summary; False if there is nothing to gain."""
        return await self._changes.compact(session)

    # Steps

    async def rewind(self, session: str, steps: int) -> int:
        """Takes back the last steps, in the sandbox and in the messages. Then `resume`, or another prompt."""
        return await self._changes.rewind(session, steps)

    async def branch(self, session: str, step: int) -> SessionFacts:
        """Another session that begins before that step, with a copy of the sandbox as it was then."""
        return await self._changes.branch(session, step)

    async def branch_turn(self, session: str, turn: int) -> SessionFacts:
        """Another session with the turns up to and with that one, and a copy of the sandbox as it is now."""
        return await self._changes.branch_turn(session, turn)

    async def artifacts(self, session: str) -> tuple[ArtifactFacts, ...]:
        """What its tools handed over, the oldest first."""
        return await find_artifacts(self._parts, await self._sessions.find(session))

    async def artifact(self, session: str, blob: str) -> tuple[ArtifactFacts, bytes]:
        """Raises ArtifactMissing, or ArtifactErased."""
        return await read_artifact(self._parts, await self._sessions.find(session), blob)

    async def replay(self, run: str) -> Replay:
        """Runs a recorded session again in a fresh sandbox, with the recorded answers. Raises RunMissing."""
        runs = self._parts.runs
        if runs is None:
            raise Unsupported("This engine keeps no record of what it did")
        from crucible.agent.replaying.driving import play

        record = Record(runs, run, await runs.entries(run))
        await play(record, self._parts, self._lanes)
        return await record.told()

    # People

    async def approvals(self, session: str | None = None) -> tuple[Approval, ...]:
        async with self._lanes.enter("query"):
            if session is not None:
                await self._sessions.find(session)
            return self._approvals.waiting(session)

    async def answer_approval(self, approval: str, answer: ApprovalAnswer) -> Approval:
        """Raises ApprovalMissing, or BadToolCall for edited arguments that cannot be used."""
        async with self._lanes.enter("control"):
            return self._approvals.answer(approval, answer)

    # Settings

    def check(self, options: SessionOptions) -> None:
        """Raises what `create_session` would raise of them."""
        self._sessions.check(options)

    async def default_models(self, user: str) -> Mapping[Purpose, str]:
        """What a session of this user that names no model gets, by purpose."""
        await self._sessions.prepare(user)
        models = models_of(self._parts.models, user)
        return {purpose: str(models.default(purpose)) for purpose in get_args(Purpose)}

    @contextlib.asynccontextmanager
    async def lend_workplace(self, options: SessionOptions) -> AsyncIterator[Workplace]:
        """One of no session: its sandbox is opened on first need, and gone in the end."""
        name = f"lent-{secrets.token_hex(8)}"
        workplace = self._parts.workplaces.workplace(name, options, had_sandbox=False)
        try:
            yield workplace
        finally:
            await workplace.close()

    def lanes(self) -> tuple[LaneFacts, ...]:
        return self._lanes.facts()

    def health(self) -> Health:
        states = [session.state for session in self._sessions.held()]
        return Health(
            sessions=len(self._sessions),
            busy=states.count("busy"),
            waiting=states.count("waiting"),
            approvals=len(self._approvals.waiting()),
            lanes=self._lanes.facts(),
        )
