"""Whole turns: prompt in, tools, answer out; and what is left when one ends otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.agent.scenes import Say, call, results, run, scene

from crucible.agent.events import Event
from crucible.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from crucible.errors import ModelOverloaded, SessionBusy, SessionMissing


def test_a_turn_answers_a_prompt(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say(text="Hello there.")) as stage:
            session = await stage.session(system="Be kind.")
            answer = await stage.engine.generate(session.id, "hello")
            assert (answer.text, answer.end, answer.intent) == ("Hello there.", "done", "chat")
            assert answer.usage.output_tokens == 5
            assert "Be kind." in stage.model.asked[0].system
            history = await stage.engine.history(session.id)
            assert [type(one) for one in history] == [UserMessage, AssistantMessage]

    run(play())


def test_a_failing_program_is_mended_step_by_step(tmp_path: Path) -> None:
    lines = (
        Say(
            text="I write it.",
            calls=(call("write", path="/workspace/a.py", content="print(1/0)\n"),),
        ),
        Say(calls=(call("bash", command="python3 a.py"),)),
        Say(calls=(call("write", path="/workspace/a.py", content="print(6*7)\n"),)),
        Say(calls=(call("bash", command="python3 a.py"),)),
        Say(text="It prints 42."),
    )

    async def play() -> None:
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "write a program and run it")
            assert (answer.text, answer.end, answer.intent) == ("It prints 42.", "done", "agent")
            seen = results(await stage.engine.history(session.id))
            assert "ZeroDivisionError" in seen[1]
            assert "42" in seen[3]
            assert [one.name for one in answer.calls] == ["write", "bash", "write", "bash"]

    run(play())


def test_parallel_calls_run_side_by_side_and_answer_in_their_order(tmp_path: Path) -> None:
    """Each waits for a file that the other makes: one after the other, neither would end."""
    meet = "touch /workspace/{0}; until [ -e /workspace/{1} ]; do sleep 0.01; done; echo {0}"
    calls = (
        call("bash", id="a", command=meet.format("one", "two")),
        call("bash", id="b", command=meet.format("two", "one")),
    )

    async def play() -> None:
        async with scene(tmp_path, Say(calls=calls), Say(text="Both.")) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "run both")
            assert answer.end == "done"
            message = (await stage.engine.history(session.id))[2]
            assert isinstance(message, ToolMessage)
            assert [one.call_id for one in message.results] == ["a", "b"]
            assert ["one" in message.results[0].text, "two" in message.results[1].text] == [
                True,
                True,
            ]

    run(play())


def test_events_are_numbered_without_gaps_and_can_be_read_from_any(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (Say(calls=(call("bash", command="echo hi"),)), Say(text="Done now."))
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            told = [event async for event in stage.engine.stream(session.id, "run echo")]
            assert [one.number for one in told] == list(range(1, len(told) + 1))
            kinds = [one.kind for one in told]
            assert kinds[0] == "turn-began"
            assert kinds[-1] == "turn-ended"
            assert {"call", "judged", "output", "result", "usage", "text"} <= set(kinds)
            again: list[Event] = []
            async for event in stage.engine.events(session.id, after=3):
                again.append(event)
                if event.kind == "turn-ended":
                    break
            assert again == told[3:]

    run(play())


def test_a_turn_lives_on_when_its_watcher_leaves(tmp_path: Path) -> None:
    async def play() -> None:
        gate = asyncio.Event()
        async with scene(tmp_path, Say(text="slow words", amid=gate)) as stage:
            session = await stage.session()
            async for event in stage.engine.stream(session.id, "hello"):
                if event.kind == "text":
                    break
            assert (await stage.engine.session(session.id)).state == "busy"
            gate.set()
            async for event in stage.engine.events(session.id, after=0):
                if event.kind == "turn-ended":
                    assert event.data["text"] == "slow words"
                    break

    run(play())


def test_a_second_prompt_is_refused_while_one_is_under_way(tmp_path: Path) -> None:
    async def play() -> None:
        gate = asyncio.Event()
        async with scene(tmp_path, Say(text="one", before=gate)) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "hello")
            with pytest.raises(SessionBusy):
                await stage.engine.begin(session.id, "again")
            gate.set()
            assert (await turn.wait()).end == "done"
            with pytest.raises(SessionMissing):
                await stage.engine.begin("ses-none", "hello")

    run(play())


def test_an_error_of_the_model_ends_the_turn_and_it_can_be_resumed(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (Say(error=ModelOverloaded("too busy", hint="wait")), Say(text="Here I am."))
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "hello")
            assert (answer.end, answer.error["code"]) == ("failed", "model-overloaded")
            turn = await stage.engine.resume(session.id)
            assert (await turn.wait()).text == "Here I am."

    run(play())


def test_a_turn_ends_after_so_many_steps(tmp_path: Path) -> None:
    async def play() -> None:
        lines = [Say(calls=(call("bash", command="true"),)) for _ in range(9)]
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session(max_iterations=3)
            events = [one async for one in stage.engine.stream(session.id, "run it for ever")]
            assert events[-1].data["end"] == "too-many-steps"
            assert "after 3 steps" in _notices(events)
            assert len(stage.model.asked) == 3
            assert isinstance((await stage.engine.history(session.id))[-1], ToolMessage)

    run(play())


def test_destroying_removes_a_sandbox_that_nobody_wrote_down(tmp_path: Path) -> None:
    """A program can die between opening it and keeping its name."""

    async def play() -> None:
        async with scene(tmp_path) as stage:
            session = await stage.session()
            place = stage.places.workplace(session.id, session.options, had_sandbox=False)
            await place.open()
            await stage.engine.destroy(session.id)
            assert place.place is None

    run(play())


def test_an_answer_of_nothing_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say()) as stage:
            session = await stage.session()
            events = [one async for one in stage.engine.stream(session.id, "hello")]
            assert "without a word" in _notices(events)

    run(play())


def test_a_call_that_was_cut_by_the_limit_of_output_says_so_to_the_model(tmp_path: Path) -> None:
    cut = ToolCall(id="c2", name="bash", arguments='{"command": "echo hel')

    async def play() -> None:
        lines = (Say(calls=(call("bash", command="true"), cut), stop="length"), Say(text="Again."))
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            whole, told = results(await stage.engine.history(session.id))
            assert "limit of output" not in whole
            assert "no JSON" in told
            assert "limit of output" in told

    run(play())


def _notices(events: list[Event]) -> str:
    return "\n".join(str(one.data["text"]) for one in events if one.kind == "notice")
