"""One tool call, from the model's words to what the model reads: hooks, risk, policy, approval, budget, run, record.

Whatever the model did wrong comes back to it as a result that says how to do better. Only the user's cancel, a spent
budget and a failing sandbox leave here as errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crucible.agent.approvals import Approvals, Asked
from crucible.agent.asking import choose_model
from crucible.agent.call_tellings import (
    artifact_step,
    failed,
    tell_result,
    tell_verdict,
    tool_step,
    turn_of,
    verdict_step,
)
from crucible.agent.hooking import ask_hooks
from crucible.agent.lanes import Lanes
from crucible.agent.messages import Picture, ToolCall, ToolResult
from crucible.agent.options import with_rule
from crucible.agent.output import Hearing, cut_for_model, room_for_result
from crucible.agent.parts import Parts
from crucible.agent.seams import Spend, Step, Verdict
from crucible.agent.session import Session
from crucible.agent.tools.base import Artifact, Context, Outcome, Tool, Use
from crucible.agent.tools.calling import parse_arguments
from crucible.agent.turn import Turn
from crucible.errors import (
    BadToolCall,
    BudgetSpent,
    CrucibleError,
    HookBlocked,
    WorkplaceLost,
    suggestion,
)

MOST_CALLS = 32
_AT_ONCE = 8
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_USUAL_RUN_S = 60.0
_CUT = ". Your answer ended at its limit of output in the middle of this call: send less at once"


class _Refusal(Exception):
    """Why a call does not run, in words for the model."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Caller:
    """Runs tool calls for one engine."""

    def __init__(self, parts: Parts, lanes: Lanes, approvals: Approvals) -> None:
        self._parts = parts
        self._lanes = lanes
        self._approvals = approvals

    async def call_all(
        self,
        session: Session,
        turn: Turn,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Tool],
        *,
        are_whole: bool = True,
    ) -> tuple[ToolResult, ...]:
        """Side by side, a few at a time; the results are in the order of the calls. `are_whole` is false if the answer
        that has them was cut short.

        One that fails leaves the others alone: what they did counts. The failure is raised when all have ended.
        """
        gate = asyncio.Semaphore(_AT_ONCE)
        cut = None if are_whole else calls[-1]
        failures: list[CrucibleError] = []

        async def one(call: ToolCall) -> None:
            if call.id in turn.results:
                return
            async with gate:
                try:
                    turn.results[call.id] = await self._call(
                        session, call, tools, is_cut=call is cut
                    )
                except CrucibleError as error:
                    failures.append(error)

        async with asyncio.TaskGroup() as group:
            for call in calls[:MOST_CALLS]:
                group.create_task(one(call))
        if failures:
            spent = [one for one in failures if isinstance(one, BudgetSpent)]
            raise (spent or failures)[0]
        for call in calls[MOST_CALLS:]:
            text = f"Not run: at most {MOST_CALLS} calls are taken at once. Send it again."
            turn.results[call.id] = tell_result(session, call, failed(call, text))
        return tuple(turn.results[call.id] for call in calls)

    async def _call(
        self, session: Session, call: ToolCall, tools: Mapping[str, Tool], *, is_cut: bool
    ) -> ToolResult:
        began = time.time()
        session.tell(
            "call",
            {
                "call": call.id,
                "tool": call.name,
                "state": "asked",
                "arguments": call.arguments[:20_000],
            },
        )
        judged: list[Step] = []
        try:
            tool = _find(call, tools)
            use = tool.use(parse_arguments(call.arguments))
            use = await self._before(session, call, tool, use)
            use = await self._permitted(session, call, tool, use, judged)
        except _Refusal as refusal:
            return await self._refused(session, call, refusal.text, began, judged)
        except BadToolCall as error:
            why = f"{error.message}{_CUT if is_cut else ''}"
            return await self._refused(session, call, why, began, judged)
        try:
            outcome = await self._run(session, call, tool, use)
        except BaseException:
            # What was judged is recorded with what came of it, or alone if nothing did.
            await self._record(judged)
            raise
        return await self._result(session, call, use, outcome, began, judged)

    async def _record(self, judged: list[Step]) -> None:
        if judged:
            await self._parts.recorder.record(*judged)
            judged.clear()

    async def _before(self, session: Session, call: ToolCall, tool: Tool, use: Use) -> Use:
        given = {"tool": use.tool, "arguments": dict(use.arguments), "call": call.id}
        try:
            got = await ask_hooks(
                self._parts,
                "before-tool",
                session=session.id,
                user=session.user,
                turn=turn_of(session),
                data=given,
                tool=use.tool,
            )
        except HookBlocked as error:
            raise _Refusal(f"Not run. {error.message}") from None
        changed = got.get("arguments")
        if isinstance(changed, Mapping) and dict(changed) != dict(use.arguments):
            return tool.use(changed)
        return use

    async def _permitted(
        self, session: Session, call: ToolCall, tool: Tool, use: Use, judged: list[Step]
    ) -> Use:
        verdict = await self._judge(session, use)
        findings = verdict.findings
        tell_verdict(session, call, use, verdict)
        judged.append(verdict_step(session, call, use, verdict))
        if verdict.decision == "allow":
            return use
        if verdict.decision == "deny":
            raise _Refusal(f"Not run: the session's policy denies it ({verdict.reason}).")
        await self._record(judged)
        answer = await self._approvals.ask(
            session,
            Asked(call=call.id, tool=tool, use=use, reason=verdict.reason, findings=findings),
        )
        match answer.decision:
            case "deny":
                note = f": {answer.note}" if answer.note else "."
                raise _Refusal(f"Not run: {answer.by} did not approve it{note}")
            case "always":
                session.change(
                    options=with_rule(session.options, verdict.always or f"{use.tool}(*)")
                )
                return use
            case "edit":
                # Who may approve need not be who wrote the hooks and the policy: both have their say again.
                edited = tool.use(answer.arguments or {})
                edited = await self._before(session, call, tool, edited)
                denied = await self._judge(session, edited)
                if denied.decision == "deny":
                    raise _Refusal(f"Not run: the policy denies it ({denied.reason}).")
                return edited
            case _:
                return use

    async def _judge(self, session: Session, use: Use) -> Verdict:
        return await asyncio.to_thread(self._parts.judge.judge, session.options.policy, use)

    async def _run(self, session: Session, call: ToolCall, tool: Tool, use: Use) -> Outcome:
        hold = await self._parts.purse.reserve(
            Spend(
                session=session.id,
                user=session.user,
                limits=session.options.budget,
                sandbox_s=_worst_s(use),
                calls=1,
            )
        )
        hearing = Hearing(session, call.id)
        ran_s = 0.0
        try:
            async with self._lanes.enter("execute"):
                session.tell("call", {"call": call.id, "tool": use.tool, "state": "running"})
                began = time.monotonic()
                try:
                    context = Context(
                        session=session.id,
                        call=call.id,
                        workplace=session.workplace,
                        heard=hearing.heard,
                    )
                    outcome = await tool.run(use, context)
                except (BadToolCall, WorkplaceLost) as error:
                    outcome = Outcome(text=error.message, is_error=True)
                finally:
                    ran_s = time.monotonic() - began
                    hearing.close()
                    session.note_place()
        finally:
            await hold.settle(sandbox_s=0.0 if use.reach == "outside" else ran_s, calls=1)
        return await self._after(session, call, use, outcome)

    async def _after(self, session: Session, call: ToolCall, use: Use, outcome: Outcome) -> Outcome:
        given = {
            "tool": use.tool,
            "arguments": dict(use.arguments),
            "call": call.id,
            "text": outcome.text,
            "is_error": outcome.is_error,
            "exit_status": outcome.exit_status,
        }
        try:
            got = await ask_hooks(
                self._parts,
                "after-tool",
                session=session.id,
                user=session.user,
                turn=turn_of(session),
                data=given,
                tool=use.tool,
            )
        except HookBlocked as error:
            return Outcome(text=f"The result is kept back. {error.message}", is_error=True)
        text = got.get("text", outcome.text)
        return replace(outcome, text=text) if text != outcome.text else outcome

    async def _result(
        self,
        session: Session,
        call: ToolCall,
        use: Use,
        outcome: Outcome,
        began: float,
        judged: list[Step],
    ) -> ToolResult:
        whole = outcome.whole or outcome.text.encode(errors="replace")
        blob = await self._parts.recorder.record(
            *judged, tool_step(session, call, use, began, output=whole, outcome=outcome, ran=True)
        )
        profile = choose_model(self._parts, session, "agent").profile
        text, is_cut = cut_for_model(outcome.text, blob, room_for_result(profile))
        result = ToolResult(
            call_id=call.id,
            name=call.name,
            text=text,
            is_error=outcome.is_error,
            pictures=await self._hand_over(session, call, outcome.artifacts),
            blob=blob if is_cut or outcome.whole else "",
        )
        return tell_result(
            session,
            call,
            result,
            exit_status=outcome.exit_status,
            duration_s=round(time.time() - began, 3),
        )

    async def _refused(
        self, session: Session, call: ToolCall, text: str, began: float, judged: list[Step]
    ) -> ToolResult:
        outcome = Outcome(text=text, is_error=True)
        use = Use(tool=call.name[:128], arguments={"raw": call.arguments[:20_000]}, subject="")
        await self._parts.recorder.record(
            *judged,
            tool_step(
                session,
                call,
                use,
                began,
                output=text.encode(errors="replace"),
                outcome=outcome,
                ran=False,
            ),
        )
        return tell_result(session, call, failed(call, text))

    async def _hand_over(
        self, session: Session, call: ToolCall, artifacts: tuple[Artifact, ...]
    ) -> tuple[Picture, ...]:
        pictures = []
        for artifact in artifacts:
            blob = await self._parts.recorder.record(artifact_step(session, call, artifact))
            session.tell(
                "artifact",
                {
                    "call": call.id,
                    "name": artifact.name,
                    "media_type": artifact.media_type,
                    "size": len(artifact.data),
                    "blob": blob,
                },
            )
            if artifact.media_type in _PICTURES:
                pictures.append(Picture(media_type=artifact.media_type, blob=blob))
        return tuple(pictures)


def _find(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    tool = tools.get(call.name)
    if tool is None:
        hint = suggestion(call.name[:80], sorted(tools))
        raise _Refusal(f"There is no tool {call.name[:80]!r}. {hint}")
    return tool


def _worst_s(use: Use) -> float:
    """How long a call may keep the sandbox: as long as it asks for, where it does."""
    if use.reach == "outside":
        return 0.0
    asked = use.arguments.get("timeout_s", _USUAL_RUN_S)
    return float(asked) if isinstance(asked, int | float) else _USUAL_RUN_S
