"""What is done to a session between its turns: pinned, cleared, compacted, taken back, branched, destroyed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crucible.agent.asking import Asker, choose_model
from crucible.agent.branching import fill_branch, find_branch
from crucible.agent.compacting import Compactor
from crucible.agent.deeds import done
from crucible.agent.facts import SessionFacts
from crucible.agent.hooking import ask_hooks
from crucible.agent.messages import AssistantMessage, UserMessage
from crucible.agent.options import changed, options_to_json
from crucible.agent.parts import Parts
from crucible.agent.prompting import Prompting
from crucible.agent.rewinding import Checkpoints
from crucible.agent.sessions import Sessions
from crucible.agent.turn import Turn
from crucible.errors import BadSetting


class Changes:
    """Of one engine. All but `configure` and `destroy` are refused while the session has a turn."""

    def __init__(
        self,
        parts: Parts,
        sessions: Sessions,
        prompting: Prompting,
        *,
        asker: Asker,
        compactor: Compactor,
        checkpoints: Checkpoints,
    ) -> None:
        self._parts = parts
        self._sessions = sessions
        self._prompting = prompting
        self._asker = asker
        self._compactor = compactor
        self._checkpoints = checkpoints

    async def configure(self, session: str, changes: Mapping[str, Any]) -> SessionFacts:
        found = await self._sessions.find(session)
        options = changed(found.options, changes)
        if options.sandbox != found.options.sandbox and found.record.place is not None:
            raise BadSetting("The session's sandbox is open", hint="Create another session")
        self._sessions.check(options)
        found.change(options=options)
        await self._parts.recorder.record(done(found, "configured", options_to_json(options)))
        await found.write()
        return found.facts()

    async def destroy(self, session: str) -> None:
        found = await self._sessions.find(session)
        await self._prompting.cancel(session)
        await self._prompting.stop_learning(session)
        async with found.changing:
            await self._parts.toolbox.leave(session)
            await self._checkpoints.forget_all(found)
            await found.leave_workplace(keep=False)
            await found.close()
            await self._parts.store.delete(session)
            self._sessions.drop(session)
            self._asker.forget(session)
            await self._parts.memory.summarized(found.user, session, covers=0, text="")
        await self._parts.chronicler.gone(session)
        await ask_hooks(
            self._parts, "after-session", session=session, user=found.user, turn=0, data={}
        )

    async def pin(self, session: str, position: int, *, is_pinned: bool) -> None:
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
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
            await self._parts.recorder.record(done(found, "pinned", asked))

    async def clear(self, session: str) -> None:
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
            await self._checkpoints.forget_all(found)
            await found.replace_messages([], moments=(), last_end=None)
            self._asker.forget(session)
            await self._parts.recorder.record(done(found, "cleared", {}))
            found.tell("notice", {"text": "The conversation was cleared."})
            await found.write()
            await self._parts.memory.summarized(found.user, session, covers=0, text="")

    async def compact(self, session: str) -> bool:
        found = await self._sessions.find(session)
        await self._sessions.prepare(found.user)
        async with self._sessions.idle(found):
            await self._parts.recorder.record(done(found, "compacted", {}))
            turn = Turn(session=session, number=0, intent="chat", first_event=0, shape=None)
            return await self._compactor.compact(
                found, turn, choose_model(self._parts, found, "agent")
            )

    async def rewind(self, session: str, steps: int) -> int:
        if steps < 1:
            raise BadSetting(f"{steps} steps cannot be taken back")
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
            self._asker.forget(session)
            step = await self._checkpoints.rewind(found, steps)
            await self._parts.recorder.record(done(found, "rewound", {"steps": steps}))
            return step

    async def branch(self, session: str, step: int) -> SessionFacts:
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
            new = new_id()
            workplace, messages = await self._checkpoints.branch(found, step, other=new)
            other = await self._sessions.add(new, found.options, parent=session, step=step)
            await other.replace_messages(messages, steps=step - 1, last_end="interrupted")
            other.give_workplace(workplace)
            await other.write()
        return other.facts()

    async def branch_turn(self, session: str, turn: int) -> SessionFacts:
        found = await self._sessions.find(session)
        async with self._sessions.idle(found):
            run = await find_branch(self._parts, found, turn)
            new = new_id()
            other = await self._sessions.add(new, found.options, parent=session)
            try:
                await fill_branch(self._parts, found, other, run)
            except BaseException:
                await self.destroy(new)
                raise
        return other.facts()


def new_id() -> str:
    return f"ses-{secrets.token_hex(8)}"
