"""Recorded sessions run again by the real loop: what comes out the same, and that the first difference is named."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import Builtin, Line, Say, Scene, call, run
from tests.agent.test_accounts import kept
from tests.agent.test_routes import TINY, UNABLE
from tests.agent.test_trust import Asks, answer

from crucible.agent.engine import Engine
from crucible.agent.hooks.chain import Hooks
from crucible.agent.hooks.declared import Declared
from crucible.agent.models.base import ToolSpec
from crucible.agent.options import Limits, SessionOptions
from crucible.agent.replaying.comparing import without_times
from crucible.agent.replaying.record import Replay
from crucible.agent.tools.base import Context, Outcome, Tool, Use
from crucible.agent.workplace import Workplace
from crucible.errors import ContentGone, RunMissing, Unsupported
from crucible.ledger.chain import Entry
from crucible.ledger.ledger import Ledger

WORK = (
    Say(calls=(call("write", id="w", path="/workspace/a.txt", content="one\n"),)),
    Say(
        calls=(
            call("bash", id="a", command="cat a.txt; echo two >> a.txt"),
            call("nope", id="n"),
        )
    ),
    Say(calls=(call("bash", id="b", command="wc -l < a.txt; exit 3"),)),
    Say(text="Done."),
)


class Altered:
    """A record in which one thing is another."""

    def __init__(self, ledger: Ledger, old: str, new: str) -> None:
        self._ledger = ledger
        self._old, self._new = old.encode(), new.encode()

    async def entries(self, run: str) -> list[Entry]:
        return await self._ledger.entries(run)

    async def blob(self, run: str, name: str) -> bytes:
        return (await self._ledger.blob(run, name)).replace(self._old, self._new)


async def replayed(stage: Scene, session: str, runs: Any = None) -> Replay:
    """By an engine that never held the session, and whose model has nothing to say."""
    asked = len(stage.model.asked)
    engine = Engine(replace(stage.parts, runs=runs or stage.parts.runs))
    again = await engine.replay(session)
    assert len(stage.model.asked) == asked, "the model was asked"
    return again


def recorded(
    root: Path,
    work: Callable[[Scene, str], Awaitable[object]],
    *lines: Line,
    options: SessionOptions | None = None,
    **parts: Any,
) -> tuple[Replay, list[Entry]]:
    """A session as `work` has it, and what comes of its replay."""

    async def play() -> tuple[Replay, list[Entry]]:
        async with kept(root, *lines, **parts) as (stage, ledger):
            session = await stage.engine.create_session(options)
            await work(stage, session.id)
            entries = await ledger.entries(session.id)
            again = await replayed(stage, session.id)
            assert await ledger.entries(session.id) == entries, "a replay is recorded nowhere"
            assert [one.id for one in await stage.engine.sessions()] == [session.id]
            return again, entries

    return run(play())


def prompts(*texts: str, **asked: Any) -> Callable[[Scene, str], Awaitable[None]]:
    async def work(stage: Scene, session: str) -> None:
        for text in texts:
            await stage.engine.generate(session, text, **asked)

    return work


def is_whole(again: Replay, entries: list[Entry]) -> None:
    assert (again.divergence, again.gap) == (None, None), again
    aside = ("session", "memory", "model-failed", "budget")
    counted = [one for one in entries if one.facts.get("step") not in aside]
    assert again.steps == len(counted)
    assert again.same == again.calls


def test_a_session_comes_out_the_same_step_for_step(tmp_path: Path) -> None:
    again, entries = recorded(tmp_path, prompts("run it", "thanks"), *WORK, Say(text="Welcome."))
    is_whole(again, entries)
    assert (again.calls, again.alike, again.erased) == (3, 0, 0)
    assert [one.facts["intent"] for one in entries if one.facts["step"] == "turn"] == [
        "agent",
        "agent",
    ]


def test_the_step_whose_output_was_altered_is_named(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, ledger):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            again = await replayed(stage, session.id, Altered(ledger, "2\n", "3\n"))
            entries = await ledger.entries(session.id)
            (altered,) = [one for one in entries if one.exit_status == 3]
            assert again.divergence is not None
            assert (again.divergence.number, again.divergence.step) == (altered.number, "bash")
            assert (again.divergence.recorded, again.divergence.got) == ("3\n", "2\n")
            assert again.same == 2

    run(play())


@pytest.mark.parametrize(
    "kind, old, new, step",
    [
        ("model", "exit 3", "exit 4", "policy bash"),
        ("prompt", '"run it"', '"mend it"', "model scripted:test"),
        ("policy", '"subject": "wc', '"subject": "cat', "policy bash"),
        ("tool", '"command": "wc', '"command": "cat', "bash"),
    ],
)
def test_other_things_that_were_altered_are_named(
    tmp_path: Path, kind: str, old: str, new: str, step: str
) -> None:
    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, ledger):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            again = await replayed(stage, session.id, AlteredOne(ledger, old, new, kind))
            assert again.divergence is not None
            assert again.divergence.step == step

    run(play())


class AlteredOne(Altered):
    """Altered in the contents of one kind of step alone."""

    def __init__(self, ledger: Ledger, old: str, new: str, kind: str) -> None:
        super().__init__(ledger, old, new)
        self._kind = kind

    async def blob(self, run: str, name: str) -> bytes:
        for entry in await self._ledger.entries(run):
            of_kind = entry.facts.get("step") == self._kind
            if of_kind and name == (entry.output if self._kind == "model" else entry.input):
                return await super().blob(run, name)
        return await self._ledger.blob(run, name)


def test_a_content_that_was_changed_on_disk_is_named(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, ledger):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            (last,) = [one for one in await ledger.entries(session.id) if one.exit_status == 3]
            (file,) = (tmp_path / "ledger" / "blobs").rglob(f"*{last.output}*")
            file.write_bytes(b"something else")
            again = await stage.engine.replay(session.id)
            assert again.divergence is not None
            assert again.divergence.number == last.number
            assert "damaged" in again.divergence.what

    run(play())


def test_a_call_that_is_recorded_twice_did_not_come_about_twice(tmp_path: Path) -> None:
    class Doubled(Altered):
        async def entries(self, run: str) -> list[Entry]:
            found = await self._ledger.entries(run)
            at = next(place for place, one in enumerate(found) if one.exit_status == 3)
            both = [*found[: at + 1], *found[at:]]
            return [replace(one, number=number) for number, one in enumerate(both, 1)]

    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, ledger):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            again = await replayed(stage, session.id, Doubled(ledger, "\0none\0", ""))
            assert again.divergence is not None
            assert (again.divergence.step, again.divergence.what) == (
                "bash",
                "it did not come about again",
            )

    run(play())


def test_times_and_ids_are_set_aside_and_counted(tmp_path: Path) -> None:
    command = "date; date +%s; date -Ins; cat /proc/sys/kernel/random/uuid; mktemp; echo 42"
    again, entries = recorded(
        tmp_path, prompts("run it"), Say(calls=(call("bash", command=command),)), Say(text="Done.")
    )
    is_whole(again, entries)
    assert (again.calls, again.alike) == (1, 1)


def test_what_people_decided_is_decided_again(tmp_path: Path) -> None:
    async def work(stage: Scene, session: str) -> None:
        turn = await stage.engine.begin(session, "run it")
        await answer(stage, session, "once")
        await answer(stage, session, "deny", note="not that")
        await answer(stage, session, "edit", arguments={"command": "echo edited"})
        await answer(stage, session, "always")
        assert (await turn.wait()).end == "done"

    says = [
        Say(calls=(call("bash", id=name, command=f"echo {name}"),))
        for name in ("first", "second", "third", "fourth", "fifth")
    ]
    again, entries = recorded(tmp_path, work, *says, Say(text="Done."), judge=Asks())
    is_whole(again, entries)
    assert again.calls == 4
    decisions = [one.facts["decision"] for one in entries if one.facts["step"] == "approval"]
    assert decisions == ["once", "deny", "edit", "always"]


def test_nobody_answering_is_replayed_without_waiting(tmp_path: Path) -> None:
    options = SessionOptions(approval_timeout_s=0.05)
    again, entries = recorded(
        tmp_path,
        prompts("run it"),
        Say(calls=(call("bash", command="echo x"),)),
        Say(text="Nobody was there."),
        options=options,
        judge=Asks(),
    )
    is_whole(again, entries)
    assert again.calls == 0


@pytest.mark.parametrize("profile", [UNABLE, TINY])
def test_the_code_pipeline_is_replayed_with_its_repairs(tmp_path: Path, profile: Any) -> None:
    again, entries = recorded(
        tmp_path,
        prompts("how many is 6 * 7"),
        Say(text="```python\nprint(6 *)\n```"),
        Say(text="```python\nprint(6 * 7)\n```"),
        Say(text="It is 42."),
        profile=profile,
    )
    is_whole(again, entries)
    assert again.calls == 2


def test_an_object_is_replayed_with_its_repairs(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    again, entries = recorded(
        tmp_path,
        prompts("give me one", schema=schema, max_repairs=1, intent="chat"),
        Say(text='{"n": "x"}'),
        Say(text='{"n": 4}'),
    )
    is_whole(again, entries)
    assert len([one for one in entries if one.facts["step"] == "model"]) == 2


def test_what_was_done_to_a_session_between_its_turns_is_done_again(tmp_path: Path) -> None:
    async def work(stage: Scene, session: str) -> None:
        engine = stage.engine
        await engine.generate(session, "hello")
        await engine.configure(session, {"system": "Be brief."})
        await engine.pin(session, 0)
        await engine.generate(session, "hello again")
        await engine.compact(session)
        await engine.generate(session, "run it")
        await engine.clear(session)
        await engine.generate(session, "hello once more")

    again, entries = recorded(
        tmp_path,
        work,
        Say(text="Hi."),
        Say(text="Again."),
        Say(text="They said hello."),
        Say(calls=(call("bash", command="echo x"),)),
        Say(text="x"),
        Say(text="Hi."),
    )
    is_whole(again, entries)
    assert {"configured", "pinned", "compacted", "cleared"} <= {
        one.facts["step"] for one in entries
    }


def test_a_turn_that_was_cancelled_ends_where_it_ended(tmp_path: Path) -> None:
    """What never came to its end is not begun again: it might never end."""

    async def work(stage: Scene, session: str) -> None:
        engine = stage.engine
        heard = set[str]()
        async for event in engine.stream(session, "run it"):
            if event.kind == "output":
                heard.add(event.data["text"].strip())
            if event.kind == "result":
                heard.add("a result")
            if heard >= {"begun", "a result"}:
                break
        await engine.cancel(session)
        async for event in engine.stream(session, "say it"):
            if event.kind == "text" and "half" in event.data["text"]:
                break
        await engine.cancel(session)
        await engine.generate(session, "and now")
        await (await engine.begin(session, "fail")).wait()
        await (await engine.resume(session)).wait()

    never = asyncio.Event()
    again, entries = recorded(
        tmp_path,
        work,
        Say(
            calls=(
                call("bash", id="a", command="echo one"),
                call("bash", id="b", command="echo begun; exec sleep 98765"),
            )
        ),
        Say(text="This is half", amid=never),
        Say(text="Now."),
        Say(error=Unsupported("no such thing")),
        Say(text="Better."),
    )
    is_whole(again, entries)
    ends = [one.facts["end"] for one in entries if one.facts["step"] == "turn"]
    assert ends == ["cancelled", "cancelled", "done", "failed", "done"]
    assert again.calls == 1


def test_a_spent_budget_is_replayed_and_costs_nothing(tmp_path: Path) -> None:
    again, entries = recorded(
        tmp_path,
        prompts("run it"),
        *[Say(calls=(call("bash", command="echo x"),))] * 3,
        options=SessionOptions(budget=Limits(calls=2)),
    )
    is_whole(again, entries)
    assert again.calls == 2


def declare_hook(root: Path, name: str, on: Any, program: str) -> Declared:
    file = root / f"{name}.py"
    file.write_text(f"import json, sys\nasked = json.load(sys.stdin)\n{program}\n")
    command = (sys.executable, str(file))
    return Declared(name=name, on=on, way="command", target=command, timeout_s=120.0)


def test_hooks_are_not_asked_again_and_what_they_said_holds(tmp_path: Path) -> None:
    told = tmp_path / "told"
    count = f"open({str(told)!r}, 'a').write('x')\n"
    hooks = Hooks(
        (
            declare_hook(
                tmp_path, "changes", ("before-tool",),
                f"{count}print(json.dumps({{'change': {{'arguments': {{'command': 'echo changed'}}}}}}))",
            ),
            declare_hook(
                tmp_path, "blocks", ("before-tool",),
                f"{count}print(json.dumps({{'block': 'not b'}} if asked['call'] == 'b' else {{}}))",
            ),
            declare_hook(
                tmp_path, "after", ("after-tool", "before-model", "after-prompt"),
                "print(json.dumps({'change': {'text': 'kept back'}} if asked['point'] == 'after-tool' else {}))",
            ),
        )
    )  # fmt: skip

    async def work(stage: Scene, session: str) -> None:
        await stage.engine.generate(session, "run it")
        asked.append(told.read_text())

    asked: list[str] = []
    again, entries = recorded(
        tmp_path,
        work,
        Say(calls=(call("bash", id="a", command="echo a"), call("bash", id="b", command="echo b"))),
        Say(text="Done."),
        hooks=hooks,
    )
    is_whole(again, entries)
    assert again.calls == 1
    assert [told.read_text()] == asked, "a hook was asked again"


@dataclass
class Outside:
    """A tool that does something which the sandbox does not hold."""

    sent: list[str] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name="send", description="Sends.", parameters={"type": "object"})

    def use(self, arguments: Any) -> Use:
        return Use(tool="send", arguments=arguments, subject="x", reach="outside")

    async def run(self, use: Use, context: Context) -> Outcome:
        self.sent.append(str(use.arguments["what"]))
        return Outcome(text=f"sent, number {len(self.sent)}")


class WithOutside(Builtin):
    def __init__(self, tool: Outside) -> None:
        self._tool = tool

    async def tools(
        self, session: str, options: SessionOptions, workplace: Workplace
    ) -> tuple[Tool, ...]:
        return (*await super().tools(session, options, workplace), self._tool)


def test_what_reaches_outside_is_not_done_again(tmp_path: Path) -> None:
    tool = Outside()
    again, entries = recorded(
        tmp_path,
        prompts("run it"),
        Say(calls=(call("send", what="a letter"),)),
        Say(text="Sent."),
        toolbox=WithOutside(tool),
    )
    is_whole(again, entries)
    assert tool.sent == ["a letter"]


def test_from_an_erased_step_on_nothing_can_be_replayed(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, ledger):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            entries = await ledger.entries(session.id)
            (last,) = [one for one in entries if one.exit_status == 3]
            assert last.output is not None
            await ledger.erase(session.id, names={last.output}, reason="by the user")
            again = await stage.engine.replay(session.id)
            assert again.divergence is None
            assert again.gap is not None
            assert (again.gap.number, again.gap.step) == (last.number, "bash")
            assert (again.same, again.erased) == (2, 1)
            await ledger.erase(session.id, reason="by the user")
            none = await stage.engine.replay(session.id)
            assert none.gap is not None
            assert (none.gap.number, none.calls, none.steps) == (1, 0, 0)
            assert none.erased > 5

    run(play())


def test_what_is_no_session_or_begins_in_another_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path) as (stage, ledger):
            with pytest.raises(RunMissing):
                await stage.engine.replay("ses-none")
            await ledger.open_run("by-hand", {})
            with pytest.raises(Unsupported, match="no session"):
                await stage.engine.replay("by-hand")
            parent = await stage.session()
            other = await stage.engine.add_session(
                "ses-branch", SessionOptions(), parent=parent.id, step=2
            )
            with pytest.raises(Unsupported, match=parent.id):
                await stage.engine.replay(other.id)

    run(play())


def test_a_gone_sandbox_room_is_told_as_the_reason(tmp_path: Path) -> None:
    class NoPlaces:
        def check(self, options: SessionOptions) -> None:
            pass

        def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Any:
            raise ContentGone("x", "there is no room for a sandbox")

    async def play() -> None:
        async with kept(tmp_path, *WORK) as (stage, _):
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            engine = Engine(replace(stage.parts, workplaces=NoPlaces()))
            again = await engine.replay(session.id)
            assert again.divergence is not None

    run(play())


@given(
    st.lists(st.sampled_from("0123456789 .:-abcxT\n"), max_size=60).map("".join),
    st.integers(0, 9_999),
)
def test_small_numbers_are_never_taken_for_times(text: str, number: int) -> None:
    assert f" {number} " in f" {without_times(str(number), 1.8e9)} "
    without_times(text, 1.8e9)


@pytest.mark.parametrize(
    "text",
    ["2", "17 * 23 = 391", "1234567890", "deadbeefcafe", "3 passed", "1.5", "v2.0.1", "10 s"],
)
def test_what_a_program_computed_is_no_time(text: str) -> None:
    assert without_times(text, 1.8e9) == text


@pytest.mark.parametrize(
    "one, other",
    [
        ("2026-11-16 02:30:11.123", "2026-12-01 14:01:59.9"),
        ("2026-11-16T02:30:11Z", "2027-01-01T00:00:00Z"),
        ("Mon Nov 16 02:30:11 UTC 2026", "Tue Dec  1 14:01:00 UTC 2026"),
        ("-rw-r--r-- 1 a a 3 Nov 16 02:30 x", "-rw-r--r-- 1 a a 3 Dec  1 14:01 x"),
        ("1 passed in 0.12s", "1 passed in 1.07s"),
        ("<f at 0x7f01a2b3c4d5>", "<f at 0x7fffa2b3c4d5>"),
        ("/tmp/tmp.Ab3dE6gH9k", "/tmp/tmp.zzzzzzzzzz"),
    ],
)
def test_times_and_ids_are_alike(one: str, other: str) -> None:
    assert without_times(one, 1.8e9) == without_times(other, 1.8e9)
    assert without_times(one, 1.8e9) != one


def test_turns_that_were_taken_back_are_taken_back_again(tmp_path: Path) -> None:
    async def work(stage: Scene, session: str) -> None:
        engine = stage.engine
        await engine.generate(session, "run it")
        await (await engine.retry(session)).wait()
        await engine.generate(session, "run that", instead_of=2)
        await engine.retract(session, 3)
        await engine.generate(session, "hello")

    say = Say(calls=(call("bash", command="echo x"),))
    again, entries = recorded(
        tmp_path, work, say, Say(text="One."), say, Say(text="Two."), say, Say(text="Three."), Say(text="Hi.")
    )  # fmt: skip
    is_whole(again, entries)
    assert again.calls == 3
