"""The engine: every session of this program, and the turns in them. Turns live here, not in whoever watches them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from crucible.agent.approvals import Approvals
from crucible.agent.artifacts import find_artifacts, read_artifact
from crucible.agent.asking import Asker, choose_model
from crucible.agent.attaching import Placed, place_files
from crucible.agent.branching import fill_branch, find_branch
from crucible.agent.calling import Caller
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
from crucible.agent.keeping.base import Kept, SessionRecord
from crucible.agent.lanes import Lanes
from crucible.agent.learning import Learner
from crucible.agent.loop import Loop
from crucible.agent.messages import AssistantMessage, Message, Picture, UserMessage
from crucible.agent.models.base import Purpose, Schema
from crucible.agent.options import SessionOptions, changed, options_to_json
from crucible.agent.parts import Parts
from crucible.agent.replaying.record import Record, Replay
from crucible.agent.retracting import files_of, find_prompt, find_turn, last_prompt, retract
from crucible.agent.rewinding import Checkpoints
from crucible.agent.seams import Chronicler, PerUser, Step, StepKind, models_of
from crucible.agent.session import Session, facts_of, new_record, state_at_rest
from crucible.agent.structured import shape_of
from crucible.agent.transcripts import read_all, read_transcript
from crucible.agent.turn import Came, Turn
from crucible.agent.turns import Turns, results_of_open_calls
from crucible.errors import (
    BadSetting,
    CrucibleError,
    EngineClosed,
    NothingToResume,
    SessionBusy,
    SessionMissing,
    Unsupported,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from crucible.agent.workplace import Workplace

    Wanted = Schema | Mapping[str, Any] | type[BaseModel]

_LONGEST_PROMPT = 1 << 20
_MOST_REPAIRS = 8
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class Engine:
    """`async with` it. Every verb may be called from any task of its loop."""

    def __init__(
        self, parts: Parts, *, lanes: Lanes | None = None, approvals: Approvals | None = None
    ) -> None:
        self._parts = parts
        self._lanes = lanes or Lanes(parts.lane_limits)
        self._approvals = approvals or Approvals(parts)
        self._asker = Asker(parts, self._lanes)
        self._compactor = Compactor(parts, self._asker)
        self._checkpoints = Checkpoints()
        caller = Caller(parts, self._lanes, self._approvals)
        self._loop = Loop(parts, self._asker, caller, self._compactor, self._checkpoints)
        self._turns = Turns(parts, self._loop)
        self._learner = Learner(parts, self._asker)
        self._sessions: dict[str, Session] = {}
        self._records: dict[str, SessionRecord] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

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
        for record in await self._parts.store.list():
            self._records[record.id] = record
        for record in tuple(self._records.values()):
            if record.turn is not None:
                await self._after_crash(await self._find(record.id))

    async def close(self) -> None:
        """Ends what runs. Turns that wait for an approval wait on in the next engine; sandboxes are let go of."""
        self._is_closing = True
        for session in self._sessions.values():
            if session.turn is not None:
                session.turn.leave(for_another=bool(session.record.approvals))
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._learner.close()
        await self._parts.toolbox.close()
        for session in self._sessions.values():
            with contextlib.suppress(CrucibleError):
                await session.leave_workplace(keep=True)
            await session.close()
        self._sessions.clear()
        await self._parts.store.close()
        for close in self._parts.closing:
            await close()

    # Sessions

    async def create_session(self, options: SessionOptions | None = None) -> SessionFacts:
        wanted = options or SessionOptions()
        session_id = f"ses-{secrets.token_hex(8)}"
        got = await ask_hooks(
            self._parts,
            "before-session",
            session=session_id,
            user=wanted.user,
            turn=0,
            data={"system": wanted.system, "model": wanted.models.get("agent", "")},
        )
        wanted = replace(wanted, system=str(got.get("system", wanted.system)))
        self._check(wanted)
        session = await self.add_session(session_id, wanted)
        return session.facts()

    async def sessions(self, user: str | None = None) -> tuple[SessionFacts, ...]:
        """In the order in which they were created."""
        async with self._lanes.enter("query"):
            return tuple(
                self._facts(record)
                for record in self._records.values()
                if user is None or record.options.user == user
            )

    async def all_ids(self) -> tuple[str, ...]:
        return tuple(self._records)

    async def session(self, session: str) -> SessionFacts:
        """Raises SessionMissing, as every verb that names a session."""
        async with self._lanes.enter("query"):
            record = self._records.get(session)
            if record is None:
                raise SessionMissing(session[:64])
            return self._facts(record)

    async def configure(self, session: str, changes: Mapping[str, Any]) -> SessionFacts:
        """Holds from the next step on, also of a turn under way."""
        found = await self._find(session)
        options = changed(found.options, changes)
        if options.sandbox != found.options.sandbox and found.record.place is not None:
            raise BadSetting("The session's sandbox is open", hint="Create another session")
        self._check(options)
        found.change(options=options)
        await self._parts.recorder.record(_done(found, "configured", options_to_json(options)))
        await found.write()
        return found.facts()

    async def destroy(self, session: str) -> None:
        """Ends its turn, removes its sandbox and all that is kept of it. The ledger stays."""
        found = await self._find(session)
        await self.cancel(session)
        await self._learner.leave(session)
        async with found.changing:
            await self._parts.toolbox.leave(session)
            await self._checkpoints.forget_all(found)
            await found.leave_workplace(keep=False)
            await found.close()
            await self._parts.store.delete(session)
            self._sessions.pop(session, None)
            self._records.pop(session, None)
            self._asker.forget(session)
            await self._parts.memory.summarized(found.user, session, covers=0, text="")
        await self._parts.chronicler.gone(session)
        await ask_hooks(
            self._parts, "after-session", session=session, user=found.user, turn=0, data={}
        )

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
    ) -> Turn:
        """Raises SessionBusy while the session has a turn. Of different sessions, model calls queue in a lane.

        Attachments are put into the workspace before the turn begins, unless they are there already. `instead_of` takes
        back that turn and all after it.
        """
        if not prompt.strip() or len(prompt) > _LONGEST_PROMPT:
            raise BadSetting(f"A prompt has 1 to {_LONGEST_PROMPT} characters")
        if not 0 <= max_repairs <= _MOST_REPAIRS:
            raise BadSetting(f"max_repairs is {max_repairs}, not 0 to {_MOST_REPAIRS}")
        shape = shape_of(schema) if schema is not None else None
        found = await self._find(session)
        await self._prepare(found.user)
        async with self._idle(found):
            if instead_of is not None:
                await find_prompt(self._parts, found, instead_of)
            if isinstance(attachments, Placed):
                given = attachments
            else:
                given = await place_files(self._parts, found, attachments)
            if instead_of is not None:
                given = await self._retract(found, instead_of, given)
            message = UserMessage(text=prompt, pictures=pictures)
            turn = await self._turns.open(
                found, message, shape=shape, intent=intent, max_repairs=max_repairs, given=given
            )
            self._go(found, turn)
        return turn

    async def retry(self, session: str) -> Turn:
        """The last prompt again, in the place of what came of it. Raises TurnMissing without one."""
        found = await self._find(session)
        async with self._idle(found):
            said = last_prompt(found)
            began = await find_turn(self._parts, found, said.turn)
            given = await self._retract(found, said.turn, Placed(files=files_of(began)))
            message = UserMessage(text=str(began.data["prompt"]), pictures=said.pictures)
            turn = await self._turns.open(
                found, message, shape=None, intent=None, max_repairs=2, given=given
            )
            self._go(found, turn)
        return turn

    async def resume(self, session: str) -> Turn:
        """Goes on with what an interrupted, cancelled or failed turn left. Raises NothingToResume."""
        found = await self._find(session)
        await self._prepare(found.user)
        async with self._idle(found):
            last = found.messages[-1] if found.messages else None
            if last is None or (isinstance(last, AssistantMessage) and last.is_whole):
                raise NothingToResume(session)
            turn = await self._turns.open(found, None, shape=None, intent=None, max_repairs=2)
            self._go(found, turn)
        return turn

    async def cancel(self, session: str) -> bool:
        """Returns when the turn has ended: its model call is left, its processes are gone. False without one."""
        async with self._lanes.enter("control"):
            turn = (await self._find(session)).turn
            if turn is None:
                return False
            turn.cancel()
        await turn.wait()
        return True

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
        found = await self._find(session)
        if await self._forgotten_since(found) is not None:
            await found.journal.let_go()
        async with contextlib.aclosing(found.journal.watch(max(0, after))) as events:
            async for event in events:
                yield event

    async def transcript(
        self, session: str, *, turns: int, before_turn: int | None = None
    ) -> Transcript:
        """The newest turns, or those before one; `events` after its `last_event` goes on where it ends."""
        found = await self._find(session)
        return await read_transcript(found, self._parts.store, turns=turns, before_turn=before_turn)

    async def whole_transcript(self, session: str) -> AsyncGenerator[Event, None]:
        """All of it, the oldest first."""
        found = await self._find(session)
        async with contextlib.aclosing(read_all(found, self._parts.store)) as events:
            async for event in events:
                yield event

    # Context

    async def context_usage(self, session: str) -> ContextUsage:
        async with self._lanes.enter("query"):
            found = await self._find(session)
            await self._prepare(found.user)
            return context_usage(found, choose_model(self._parts, found, "agent"))

    async def history(self, session: str) -> tuple[Message, ...]:
        async with self._lanes.enter("query"):
            found = await self._find(session)
            if found.turn is None and await self._forgotten_since(found) is not None:
                return (await self._parts.store.load(session)).messages
            return tuple(found.messages)

    async def pin(self, session: str, position: int, *, is_pinned: bool = True) -> None:
        """What is pinned is kept word for word when the session is compacted."""
        found = await self._find(session)
        async with self._idle(found):
            if not 0 <= position < len(found.messages):
                raise BadSetting(f"Session {session!r} has no message {position}")
            message = found.messages[position]
            if not isinstance(message, UserMessage | AssistantMessage):
                raise BadSetting(f"Message {position} is a result; pin the message before it")
            messages = list(found.messages)
            messages[position] = replace(message, is_pinned=is_pinned)
            record = found.record
            await found.replace_messages(
                messages,
                context_tokens=record.context_tokens,
                context_messages=record.context_messages,
            )
            asked = {"position": position, "is_pinned": is_pinned}
            await self._parts.recorder.record(_done(found, "pinned", asked))

    async def clear(self, session: str) -> None:
        """Forgets the conversation. The sandbox and the ledger stay."""
        found = await self._find(session)
        async with self._idle(found):
            await self._checkpoints.forget_all(found)
            await found.replace_messages([], moments=(), last_end=None)
            self._asker.forget(session)
            await self._parts.recorder.record(_done(found, "cleared", {}))
            found.tell("notice", {"text": "The conversation was cleared."})
            await found.write()
            await self._parts.memory.summarized(found.user, session, covers=0, text="")

    async def compact(self, session: str) -> bool:
        """By a summary; False if there is nothing to gain."""
        found = await self._find(session)
        await self._prepare(found.user)
        async with self._idle(found):
            await self._parts.recorder.record(_done(found, "compacted", {}))
            turn = Turn(session=session, number=0, intent="chat", first_event=0, shape=None)
            return await self._compactor.compact(
                found, turn, choose_model(self._parts, found, "agent")
            )

    # Steps

    async def rewind(self, session: str, steps: int) -> int:
        """Takes back the last steps, in the sandbox and in the messages. Then `resume`, or another prompt."""
        if steps < 1:
            raise BadSetting(f"{steps} steps cannot be taken back")
        found = await self._find(session)
        async with self._idle(found):
            self._asker.forget(session)
            step = await self._checkpoints.rewind(found, steps)
            await self._parts.recorder.record(_done(found, "rewound", {"steps": steps}))
            return step

    async def branch(self, session: str, step: int) -> SessionFacts:
        """Another session that begins before that step, with a copy of the sandbox as it was then."""
        found = await self._find(session)
        async with self._idle(found):
            new = f"ses-{secrets.token_hex(8)}"
            workplace, messages = await self._checkpoints.branch(found, step, other=new)
            other = await self.add_session(new, found.options, parent=session, step=step)
            await other.replace_messages(messages, steps=step - 1, last_end="interrupted")
            other.give_workplace(workplace)
            await other.write()
        return other.facts()

    async def retract(self, session: str, turn: int) -> None:
        """Takes back the messages of that turn and of all after it. Raises what `retracting` does."""
        found = await self._find(session)
        async with self._idle(found):
            await self._retract(found, turn, Placed())

    async def branch_turn(self, session: str, turn: int) -> SessionFacts:
        """Another session with the turns up to and with that one, and a copy of the sandbox as it is now."""
        found = await self._find(session)
        async with self._idle(found):
            run = await find_branch(self._parts, found, turn)
            new = f"ses-{secrets.token_hex(8)}"
            other = await self.add_session(new, found.options, parent=session)
            try:
                await fill_branch(self._parts, found, other, run)
            except BaseException:
                await self.destroy(new)
                raise
        return other.facts()

    async def artifacts(self, session: str) -> tuple[ArtifactFacts, ...]:
        """What its tools handed over, the oldest first."""
        return await find_artifacts(self._parts, await self._find(session))

    async def artifact(self, session: str, blob: str) -> tuple[ArtifactFacts, bytes]:
        """Raises ArtifactMissing, or ArtifactErased."""
        return await read_artifact(self._parts, await self._find(session), blob)

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
                await self._find(session)
            return self._approvals.waiting(session)

    async def answer_approval(self, approval: str, answer: ApprovalAnswer) -> Approval:
        """Raises ApprovalMissing, or BadToolCall for edited arguments that cannot be used."""
        async with self._lanes.enter("control"):
            return self._approvals.answer(approval, answer)

    # Settings

    def check(self, options: SessionOptions) -> None:
        """Raises what `create_session` would raise of them."""
        self._check(options)

    async def default_models(self, user: str) -> Mapping[Purpose, str]:
        """What a session of this user that names no model gets, by purpose."""
        await self._prepare(user)
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
        states = [session.state for session in self._sessions.values()]
        return Health(
            sessions=len(self._records),
            busy=states.count("busy"),
            waiting=states.count("waiting"),
            approvals=len(self._approvals.waiting()),
            lanes=self._lanes.facts(),
        )

    # Within

    async def _prepare(self, user: str) -> None:
        if isinstance(self._parts.models, PerUser):
            await self._parts.models.prepare(user)

    async def _retract(self, session: Session, turn: int, given: Placed) -> Placed:
        self._asker.forget(session.id)
        notices = await retract(self._parts, session, turn)
        await self._parts.recorder.record(_done(session, "retracted", {"turn": turn}))
        return replace(given, notices=(*notices, *given.notices))

    async def _find(self, session: str) -> Session:
        found = self._sessions.get(session)
        if found is not None:
            return found
        if session not in self._records:
            raise SessionMissing(session[:64])
        # Asked for first: what is forgotten meanwhile is noticed later.
        forgotten = await self._parts.memory.forgotten(self._records[session].options.user)
        kept = await self._parts.store.load(session)
        # Another may have been quicker.
        return self._sessions.get(session) or self._take_up(kept, forgotten)

    async def _forgotten_since(self, session: Session) -> int | None:
        """By this program or another; None if what is held here is what is kept."""
        forgotten = await self._parts.memory.forgotten(session.user)
        return forgotten if forgotten != session.forgotten else None

    def _check(self, options: SessionOptions) -> None:
        """Whether everything it names is there: better now than in the middle of a turn."""
        self._parts.workplaces.check(options)
        self._parts.judge.check(options.policy)
        for model in options.models.values():
            self._parts.models.parse(model)

    def _facts(self, record: SessionRecord) -> SessionFacts:
        session = self._sessions.get(record.id)
        return session.facts() if session else facts_of(record, state_at_rest(record))

    def _take_up(self, kept: Kept, forgotten: int) -> Session:
        session = Session(kept, self._parts.store, self._parts.workplaces, forgotten=forgotten)
        self._sessions[session.id] = session
        self._records[session.id] = kept.record
        return session

    async def add_session(
        self, session_id: str, options: SessionOptions, *, parent: str = "", step: int = 0
    ) -> Session:
        """Under this id, without asking hooks. `step` of the parent is where it begins."""
        if self._is_closing:
            raise EngineClosed
        record = new_record(session_id, options, parent=parent)
        await self._parts.store.save(record)
        forgotten = await self._parts.memory.forgotten(options.user)
        session = self._take_up(Kept(record=record, messages=(), last_event=0), forgotten)
        await self._parts.recorder.record(_born(session, step))
        return session

    @contextlib.asynccontextmanager
    async def _idle(self, session: Session) -> AsyncIterator[None]:
        """Holds off whoever else would change a session that has no turn."""
        if self._is_closing:
            raise EngineClosed
        ending = session.turn
        if ending is not None and session.record.turn is None:
            # Its end is told, and about to be written: whoever has heard it may go on.
            await ending.wait()
        if session.turn is not None or session.changing.locked():
            raise SessionBusy(session.id)
        async with session.changing:
            if (forgotten := await self._forgotten_since(session)) is not None:
                await session.read_again(forgotten)
                self._asker.forget(session.id)
            yield

    def _go(self, session: Session, turn: Turn) -> None:
        session.turn = turn
        task = asyncio.create_task(self._live(session, turn), name=f"turn {session.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, session: Session, turn: Turn) -> None:
        await self._turns.see_through(session, turn)
        answer = await turn.wait()
        if answer.end == "done" and session.options.memory and not self._is_closing:
            self._learner.begin(session, turn)

    async def _after_crash(self, session: Session) -> None:
        open_turn = session.record.turn
        if open_turn is None:
            return
        schema = open_turn.schema
        shape = (
            shape_of(Schema(name=open_turn.schema_name, schema=schema))
            if schema is not None
            else None
        )
        session.journal.pass_over_lost()
        turn = self._turns.reopen(session, open_turn, shape)
        turn.results = await results_of_open_calls(session)
        if session.record.approvals:
            with contextlib.suppress(CrucibleError):
                # Whoever answers the approval is told if there is no model then.
                await self._prepare(session.user)
            self._turns.close_calls_that_ran(session, turn)
            self._go(session, turn)
        else:
            await self._turns.finish(session, turn, Came(end="interrupted"), {})


def _done(session: Session, kind: StepKind, asked: Mapping[str, Any]) -> Step:
    """What somebody did to a session besides asking it."""
    now, turn = time.time(), session.record.turn
    return Step(
        session=session.id,
        user=session.user,
        turn=turn.number if turn else session.record.turns,
        kind=kind,
        name=session.user,
        began_at=now,
        ended_at=now,
        input=json.dumps(asked, sort_keys=True).encode(),
    )


def _born(session: Session, step: int) -> Step:
    options, parent = options_to_json(session.options), session.record.parent
    return Step(
        session=session.id,
        user=session.user,
        turn=0,
        kind="session",
        name=session.id,
        began_at=session.record.created_at,
        ended_at=session.record.created_at,
        input=json.dumps(options, sort_keys=True).encode(),
        facts={"parent": parent, "before_step": step} if parent else {},
    )
