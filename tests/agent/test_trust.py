"""Approvals: what a person is asked, what the answers do, and that waiting outlives the program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.agent.scenes import Say, Scene, call, results, run, scene

from crucible.agent.engine import Engine
from crucible.agent.facts import Approval, ApprovalAnswer, Finding
from crucible.agent.hooks.points import Ruling
from crucible.agent.messages import ToolMessage
from crucible.agent.options import PolicyRules, SessionOptions, with_rule
from crucible.agent.seams import Verdict
from crucible.agent.tools.base import Use
from crucible.errors import ApprovalMissing, BadToolCall


@dataclass(frozen=True)
class Asks:
    """Asks about everything but what was always allowed; denies what says `forbidden`."""

    def check(self, rules: PolicyRules) -> None:
        pass

    def judge(self, rules: PolicyRules, use: Use) -> Verdict:
        decision: Literal["allow", "ask", "deny"] = "ask"
        if "forbidden" in use.subject:
            decision = "deny"
        elif f"{use.tool}(*)" in rules.allow:
            decision = "allow"
        return Verdict(
            decision=decision,
            reason="a rule of the test",
            always=f"{use.tool}(*)",
            findings=(Finding(rule="writes", severity="low", line=1, why="it writes a file"),),
        )


BASH = Say(calls=(call("bash", command="echo one > made; cat made"),))


async def asked(engine: Engine, session: str) -> Approval:
    """When it is asked, it is also kept: who answers may be another program."""
    async for event in engine.events(session):
        if event.kind == "approval-asked" and (found := await engine.approvals(session)):
            return found[0]
    raise AssertionError("nothing was asked")


async def both_asked(engine: Engine, session: str) -> tuple[Approval, ...]:
    for _ in range(100_000):
        if len(waiting := await engine.approvals(session)) == 2:
            return waiting
        await asyncio.sleep(0)
    raise AssertionError("two were to be asked")


async def answer(
    stage: Scene, session: str, decision: Literal["once", "always", "edit", "deny"], **more: object
) -> Approval:
    approval = await asked(stage.engine, session)
    given = ApprovalAnswer(decision=decision, by="ana", **more)  # type: ignore[arg-type]
    return await stage.engine.answer_approval(approval.id, given)


def test_a_person_sees_what_would_run_where_and_the_risk(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="Made."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            approval = await asked(stage.engine, session.id)
            assert approval.subject == "echo one > made; cat made"
            assert approval.arguments["command"] == "echo one > made; cat made"
            assert approval.findings[0].why == "it writes a file"
            assert "sandbox" in approval.where
            assert approval.expires_at > time.time()
            assert (await stage.engine.session(session.id)).state == "waiting"
            assert stage.places.made[session.id].place is None, "nothing may run before"
            await answer(stage, session.id, "once")
            assert (await turn.wait()).end == "done"
            assert "one" in results(await stage.engine.history(session.id))[0]
            assert await stage.engine.approvals() == ()

    run(play())


def test_a_denial_is_told_to_the_model_and_nothing_runs(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="Then not."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            await answer(stage, session.id, "deny", note="not today")
            assert (await turn.wait()).text == "Then not."
            seen = results(await stage.engine.history(session.id))
            assert "ana did not approve it: not today" in seen[0]
            assert stage.places.made[session.id].place is None

    run(play())


def test_always_asks_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, BASH, Say(text="Twice."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            await answer(stage, session.id, "always")
            assert (await turn.wait()).end == "done"
            facts = await stage.engine.session(session.id)
            assert facts.options.policy.allow == ("bash(*)",)
            kinds = [one.kind async for one in _until_end(stage, session.id)]
            assert kinds.count("approval-asked") == 1

    run(play())


def test_an_edited_call_runs_as_it_was_edited(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="Edited."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            with pytest.raises(BadToolCall):
                await answer(stage, session.id, "edit", arguments={"nonsense": 1})
            await answer(stage, session.id, "edit", arguments={"command": "echo other"})
            await turn.wait()
            assert "other" in results(await stage.engine.history(session.id))[0]

    run(play())


def test_an_edit_cannot_get_past_what_is_denied(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="No."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            await answer(stage, session.id, "edit", arguments={"command": "echo forbidden"})
            await turn.wait()
            assert "denies it" in results(await stage.engine.history(session.id))[0]
            assert stage.places.made[session.id].place is None

    run(play())


def test_nobody_answering_is_a_denial(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="Late."), judge=Asks()) as stage:
            session = await stage.session(approval_timeout_s=0.01)
            reply = await stage.engine.generate(session.id, "run it")
            assert reply.text == "Late."
            assert "nobody answered in time" in results(await stage.engine.history(session.id))[0]

    run(play())


def test_an_approval_is_answered_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, Say(text="Made."), judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            approval = await answer(stage, session.id, "once")
            with pytest.raises(ApprovalMissing):
                await stage.engine.answer_approval(
                    approval.id, ApprovalAnswer(decision="deny", by="bo")
                )
            assert (await turn.wait()).end == "done"

    run(play())


def test_an_answer_that_comes_after_the_cancel_counts_for_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            approval = await asked(stage.engine, session.id)
            await stage.engine.cancel(session.id)
            with pytest.raises(ApprovalMissing):
                await stage.engine.answer_approval(
                    approval.id, ApprovalAnswer(decision="always", by="ana")
                )
            assert (await turn.wait()).end == "cancelled"
            assert (await stage.engine.session(session.id)).options.policy.allow == ()
            assert stage.places.made[session.id].place is None, "nothing ran"

    run(play())


def test_who_waits_for_an_approval_waits_on_in_the_next_engine(tmp_path: Path) -> None:
    two = Say(calls=(*BASH.calls, call("bash", id="c2", command="echo two")))

    async def play() -> None:
        async with scene(tmp_path, two, judge=Asks()) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            first, _ = await both_asked(stage.engine, session.id)
        assert (await turn.wait()).end == "interrupted"
        async with scene(tmp_path, Say(text="At last."), judge=Asks()) as later:
            waiting = await both_asked(later.engine, session.id)
            assert first in waiting
            assert (await later.engine.session(session.id)).state == "waiting"
            for one in waiting:
                await later.engine.answer_approval(one.id, ApprovalAnswer(decision="once", by="a"))
            async for event in _until_end(later, session.id):
                last = event
            assert last.data["text"] == "At last."
            message = (await later.engine.history(session.id))[2]
            assert isinstance(message, ToolMessage)
            assert [one.call_id for one in message.results] == ["c1", "c2"]
            assert [one.is_error for one in message.results] == [False, False]

    run(play())


class Rewrites:
    """A hook that has the model's commands run with another word each time it is asked."""

    def __init__(self, word: str) -> None:
        self._word = word

    def has(self, point: str) -> bool:
        return point == "before-tool"

    async def ask(self, point: str, *, data: Mapping[str, Any], **_: object) -> Ruling:
        return Ruling(data={**data, "arguments": {"command": f"echo {self._word}"}})


def test_nobody_approves_after_a_restart_what_they_were_not_shown(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, BASH, judge=Asks(), hooks=Rewrites("harmless")) as stage:
            session = await stage.session()
            await stage.engine.begin(session.id, "run it")
            shown = await asked(stage.engine, session.id)
            assert shown.subject == "echo harmless"
        later = scene(tmp_path, Say(text="Done."), judge=Asks(), hooks=Rewrites("harmful"))
        async with later as stage:
            for _ in range(100_000):
                if waiting := await stage.engine.approvals(session.id):
                    break
                await asyncio.sleep(0)
            assert [one.subject for one in waiting] == ["echo harmful"]
            with pytest.raises(ApprovalMissing):
                await stage.engine.answer_approval(
                    shown.id, ApprovalAnswer(decision="once", by="ana")
                )

    run(play())


def test_hooks_are_asked_about_what_a_person_made_of_a_call(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (BASH, Say(text="Edited."))
        async with scene(tmp_path, *lines, judge=Asks(), hooks=Rewrites("hooked")) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "run it")
            await answer(stage, session.id, "edit", arguments={"command": "echo other"})
            await turn.wait()
            assert results(await stage.engine.history(session.id))[0] == "hooked"

    run(play())


def test_a_policy_that_is_full_takes_no_further_always() -> None:
    full = SessionOptions(policy=PolicyRules(allow=tuple(f"bash({n})" for n in range(500))))
    assert with_rule(full, "bash(x)") is full
    assert with_rule(SessionOptions(), "bash(x)").policy.allow == ("bash(x)",)


async def _until_end(stage: Scene, session: str):  # type: ignore[no-untyped-def]
    async for event in stage.engine.events(session):
        yield event
        if event.kind == "turn-ended":
            return
