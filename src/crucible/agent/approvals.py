"""Calls that wait for a person. What waits is kept with its session, so that it outlives this process."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from crucible.agent.facts import Approval, ApprovalAnswer, Finding
from crucible.agent.parts import Parts
from crucible.agent.seams import Step
from crucible.agent.session import Session
from crucible.agent.tools.base import Tool, Use
from crucible.errors import ApprovalMissing, BadSetting

TIMED_OUT = "nobody answered in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person is asked about a call."""

    call: str
    tool: Tool
    use: Use
    reason: str
    findings: tuple[Finding, ...]


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A question while it waits. Only answers and times end it."""

    approval: Approval
    tool: Tool
    answer: asyncio.Future[ApprovalAnswer]


class Approvals:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: dict[str, Waiting] = {}

    async def ask(self, session: Session, asked: Asked) -> ApprovalAnswer:
        """Waits for the answer, or for the time in which there should have been one: that is a denial.

        A call that was asked about before a restart is not asked about again: it goes on waiting. Unless it has become
        another since, by a hook that answers differently: nobody shall approve what they were not shown.
        """
        approval = _kept(session, asked) or self._put(session, asked)
        waiting = Waiting(
            approval=approval,
            tool=asked.tool,
            answer=asyncio.get_running_loop().create_future(),
        )
        self._waiting[approval.id] = waiting
        try:
            await session.write()
            answer = await self.wait(waiting)
        finally:
            del self._waiting[approval.id]
        _remove(session, approval)
        session.tell("approval-answered", {"approval": approval.id, **_told(answer)})
        await self._parts.recorder.record(_step(session, approval, answer))
        await session.write()
        return answer

    async def wait(self, waiting: Waiting) -> ApprovalAnswer:
        # By the clock on the wall: it goes on while no process of ours runs.
        left = waiting.approval.expires_at - time.time()
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await waiting.answer
        except TimeoutError:
            if waiting.answer.done() and not waiting.answer.cancelled():
                # It came in the last moment, and whoever gave it was told that it counts.
                return waiting.answer.result()
            return ApprovalAnswer(decision="deny", by="timeout", note=TIMED_OUT)

    def answer(self, approval_id: str, answer: ApprovalAnswer) -> Approval:
        """Raises ApprovalMissing, or BadToolCall for edited arguments that the tool cannot use: it waits on then."""
        waiting = self._waiting.get(approval_id)
        if waiting is None or waiting.answer.done():
            raise ApprovalMissing(approval_id[:64])
        if answer.decision == "edit":
            if answer.arguments is None:
                raise BadSetting("An edited call needs its new arguments")
            waiting.tool.use(answer.arguments)
        waiting.answer.set_result(answer)
        return waiting.approval

    def waiting(self, session: str | None = None) -> tuple[Approval, ...]:
        found = (one.approval for one in self._waiting.values() if not one.answer.done())
        return tuple(one for one in found if session is None or one.session == session)

    def _put(self, session: Session, asked: Asked) -> Approval:
        now = time.time()
        turn = session.record.turn
        approval = Approval(
            id=f"apr-{secrets.token_hex(8)}",
            session=session.id,
            turn=turn.number if turn else session.record.turns,
            call=asked.call,
            tool=asked.use.tool,
            subject=asked.use.subject,
            arguments=dict(asked.use.arguments),
            where=_where(session, asked.use),
            reason=asked.reason,
            findings=asked.findings,
            asked_at=now,
            expires_at=now + session.options.approval_timeout_s,
        )
        session.change(approvals=(*session.record.approvals, approval))
        session.tell("approval-asked", approval_to_json(approval))
        return approval


def approval_to_json(approval: Approval) -> dict[str, Any]:
    return asdict(approval)


def _kept(session: Session, asked: Asked) -> Approval | None:
    found = next((one for one in session.record.approvals if one.call == asked.call), None)
    if found is None or _shown(found) == (
        asked.use.tool,
        asked.use.subject,
        _plain(asked.use.arguments),
    ):
        return found
    _remove(session, found)
    return None


def _shown(approval: Approval) -> tuple[str, str, str]:
    return (approval.tool, approval.subject, _plain(approval.arguments))


def _plain(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments), sort_keys=True, default=str)


def _remove(session: Session, approval: Approval) -> None:
    rest = tuple(one for one in session.record.approvals if one.id != approval.id)
    session.change(approvals=rest)


def _where(session: Session, use: Use) -> str:
    if use.reach == "outside":
        return "outside the sandbox, on this host or beyond"
    place = session.record.place
    if place is None:
        return (
            f"a sandbox of {session.options.sandbox.image or 'the default image'}, not opened yet"
        )
    return f"sandbox {place.name or place.sandbox} ({place.image}, {place.isolation})"


def _told(answer: ApprovalAnswer) -> dict[str, Any]:
    told: dict[str, Any] = {"decision": answer.decision, "by": answer.by, "note": answer.note}
    if answer.arguments is not None:
        told["arguments"] = dict(answer.arguments)
    return told


def _step(session: Session, approval: Approval, answer: ApprovalAnswer) -> Step:
    shown = replace(approval, arguments=dict(approval.arguments))
    return Step(
        session=session.id,
        user=session.user,
        turn=approval.turn,
        kind="approval",
        name=approval.tool,
        began_at=approval.asked_at,
        ended_at=time.time(),
        input=json.dumps(approval_to_json(shown)).encode(),
        output=json.dumps(_told(answer)).encode(),
        place=session.record.place,
        is_error=answer.decision == "deny",
        facts={"decision": answer.decision, "by": answer.by, "call": approval.call[:100]},
    )
