"""Where prompts go: the router's rules, the code pipeline, bad calls of tools, and the cut of what they print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import OneModel, Played, Say, call, results, run, scene

from crucible.agent.messages import ToolCall, ToolMessage, ToolResult, UserMessage
from crucible.agent.models.base import ModelRef, Profile
from crucible.agent.output import MODEL_CHARACTERS, cut_for_model
from crucible.agent.pipeline import find_program
from crucible.agent.router import route

ABLE = Profile(context_tokens=9000, output_tokens=900)
UNABLE = Profile(context_tokens=9000, output_tokens=900, calls_tools=False)
TINY = Profile(context_tokens=2048, output_tokens=512, calls_tools=False, is_tiny=True)


@pytest.mark.parametrize(
    "prompt",
    ["hello", "Thanks!", "who are you?", "What is a monad?", "Explain recursion to me", "why?"],
)
def test_talk_goes_to_chat(prompt: str) -> None:
    assert route(prompt, (), ABLE) == "chat"


@pytest.mark.parametrize(
    "prompt",
    [
        "Run the tests",
        "fix the bug in main.py",
        "what is in /etc/passwd",
        "how many primes are there below 500?",
        "Écris un programme",
        "mach das bitte",
        "what is 17 * 23",
        "explain this:\n```python\nx\n```",
        "summarize https://example.org",
        "why " * 200,
        "",
    ],
)
def test_everything_else_goes_to_tools(prompt: str) -> None:
    assert route(prompt, (), ABLE) == "agent"


def test_a_question_after_work_goes_on_with_the_work() -> None:
    worked = (
        UserMessage(text="run it"),
        ToolMessage(results=(ToolResult(call_id="1", name="bash", text="1"),)),
    )
    assert route("why?", worked, ABLE) == "agent"
    assert route("why?", (*worked, UserMessage(text="thanks")), ABLE) == "chat"


@pytest.mark.parametrize("prompt", ["what is 17 * 23", "how many primes below 50", "sort 3, 1, 2"])
def test_a_model_without_tools_computes_by_a_program(prompt: str) -> None:
    assert route(prompt, (), UNABLE) == "code"
    assert route("hello there", (), UNABLE) == "chat"


@given(st.text())
def test_the_same_words_always_go_the_same_way(prompt: str) -> None:
    assert route(prompt, (), ABLE) == route(prompt, (), ABLE)
    find_program(prompt)


@pytest.mark.parametrize(
    "text, language, program",
    [
        ("```python\nprint(1)\n```", "python", "print(1)"),
        ("a\n```py\nprint(1)\n```\nb\n```python\nprint(2)\n```", "python", "print(2)"),
        ("```\nprint(3)", "python", "print(3)"),
        ("```bash\nls\n```", "bash", "ls"),
    ],
)
def test_the_last_program_is_found(text: str, language: str, program: str) -> None:
    found = find_program(text)
    assert found is not None
    assert (found.language, found.text) == (language, program)


@pytest.mark.parametrize("text", ["", "no program", "```json\n{}\n```", "```python\n \n```"])
def test_what_is_no_program_is_none(text: str) -> None:
    assert find_program(text) is None


@pytest.mark.parametrize("is_tiny", [True, False])
def test_where_a_value_lies_is_no_answer_of_a_tiny_model(tmp_path: Path, is_tiny: bool) -> None:
    lines = (
        Say(text="```python\nprint(n for n in range(3))\n```"),
        Say(text="```python\nprint(6*7)\n```"),
    )

    async def play() -> None:
        profile = replace(UNABLE, is_tiny=is_tiny)
        async with scene(tmp_path, *lines, profile=profile) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "compute 6 * 7")
            history = await stage.engine.history(session.id)
            told = [one.text for one in history if isinstance(one, UserMessage)][1]
            assert "<generator object" in told
            # Another model sees for itself what is wrong.
            assert told.startswith("The program failed:" if is_tiny else "The program printed:")
            assert answer.end == "done"
            assert is_tiny == ("It printed:\n\n```\n42" in answer.text)

    run(play())


def test_a_program_that_fails_is_mended_and_its_result_answered(tmp_path: Path) -> None:
    lines = (
        Say(text="```python\nprint(1/0)\n```"),
        Say(text="```python\nprint(6*7)\n```"),
        Say(text="It is 42."),
    )

    async def play() -> None:
        async with scene(tmp_path, *lines, profile=UNABLE) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "compute 6 * 7")
            assert (answer.intent, answer.end, answer.text) == ("code", "done", "It is 42.")
            history = await stage.engine.history(session.id)
            texts = [one.text for one in history if isinstance(one, UserMessage)]
            assert "ZeroDivisionError" in texts[1]
            assert "42" in texts[2]
            assert all(not request.tools for request in stage.model.asked)

    run(play())


def test_a_tiny_model_has_not_the_last_word(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say(text="```python\nprint(17*23)\n```"), profile=TINY) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "what is 17 * 23")
            assert answer.end == "done"
            assert "print(17*23)" in answer.text
            assert "391" in answer.text
            assert len(stage.model.asked) == 1

    run(play())


def test_programs_are_mended_only_so_often(tmp_path: Path) -> None:
    async def play() -> None:
        lines = [Say(text="```python\nprint(1/0)\n```")] * 9
        async with scene(tmp_path, *lines, profile=UNABLE) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "compute 1 / 0")
            assert answer.end == "too-many-steps"
            assert len(stage.model.asked) == 4

    run(play())


def test_chat_goes_to_the_cheaper_model(tmp_path: Path) -> None:
    async def play() -> None:
        cheap = Played(Say(text="Cheap."), ref=ModelRef(provider="scripted", name="cheap"))
        main = Played(Say(text="Dear."), ref=ModelRef(provider="scripted", name="main"))
        async with scene(tmp_path, models=OneModel(main, cheap)) as stage:
            session = await stage.session(
                models={"agent": "scripted:main", "chat": "scripted:cheap"}
            )
            assert (await stage.engine.generate(session.id, "hello")).text == "Cheap."
            assert (await stage.engine.generate(session.id, "run it")).text == "Dear."

    run(play())


def test_bad_calls_are_answered_so_that_the_model_can_do_better(tmp_path: Path) -> None:
    calls = (
        call("bsh", id="a", command="ls"),
        ToolCall(id="b", name="bash", arguments='{"command": '),
        ToolCall(id="c", name="bash", arguments="[1]"),
        ToolCall(id="d", name="bash", arguments='{"cmd": "ls"}'),
        ToolCall(id="d", name="bash", arguments='{"command": "echo same id"}'),
        ToolCall(id="", name="bash", arguments='{"command": "echo no id"}'),
    )

    async def play() -> None:
        async with scene(tmp_path, Say(calls=calls), Say(text="Sorry.")) as stage:
            session = await stage.session()
            assert (await stage.engine.generate(session.id, "run it")).end == "done"
            unknown, cut, array, wrong, same, without = results(
                await stage.engine.history(session.id)
            )
            assert "Did you mean `bash`" in unknown
            assert "no JSON" in cut
            assert "one JSON object" in array
            assert "command" in wrong
            assert "same id" in same
            assert "no id" in without

    run(play())


def test_too_many_calls_at_once_are_told_so(tmp_path: Path) -> None:
    async def play() -> None:
        calls = tuple(call("nope", id=str(number)) for number in range(40))
        async with scene(tmp_path, Say(calls=calls), Say(text="Fewer then.")) as stage:
            session = await stage.session()
            assert (await stage.engine.generate(session.id, "run it")).end == "done"
            told = results(await stage.engine.history(session.id))
            assert sum("at most 32 calls" in one for one in told) == 8

    run(play())


def test_long_output_is_cut_for_the_model_and_kept_whole(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (Say(calls=(call("bash", command="seq 1 20000"),)), Say(text="Many."))
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            await stage.engine.generate(session.id, "run it")
            message = (await stage.engine.history(session.id))[2]
            assert isinstance(message, ToolMessage)
            (result,) = message.results
            assert len(result.text) < MODEL_CHARACTERS + 500
            assert "left out" in result.text
            whole = await stage.parts.recorder.blob(session.id, result.blob)
            assert whole is not None
            assert b"\n10000\n" in whole

    run(play())


@given(st.text(max_size=2000), st.integers(0, 40))
def test_cutting_keeps_both_ends(text: str, times: int) -> None:
    long = text * times
    cut, is_cut = cut_for_model(long, "blob")
    assert is_cut == (len(long) > MODEL_CHARACTERS)
    assert cut[:1000] == long[:1000]
    assert cut[-1000:] == long[-1000:]


def test_a_session_has_only_the_tools_it_was_given(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say(text="ok")) as stage:
            session = await stage.session(tools=("re*", "ls"))
            await stage.engine.generate(session.id, "list the files")
            assert {one.name for one in stage.model.asked[0].tools} == {"read", "ls"}

    run(play())
