"""Room in the model's context: how full it is, what compacting keeps, and what happens when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import Say, call, results, run, scene

from crucible.agent.compaction import choose_cut, is_pinned, joined, room_for_recent
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Summary,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import Profile, Usage
from crucible.agent.remembering import SessionMemory
from crucible.errors import BadSetting, ContextTooLong, ModelOverloaded
from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.store.database import Database

SMALL = Profile(context_tokens=2000, output_tokens=400)


def test_context_usage_is_what_the_model_last_said(tmp_path: Path) -> None:
    async def play() -> None:
        line = Say(text="Hi.", usage=Usage(input_tokens=700, output_tokens=20))
        async with scene(tmp_path, line, profile=SMALL) as stage:
            session = await stage.session()
            await stage.engine.generate(session.id, "hello")
            usage = await stage.engine.context_usage(session.id)
            assert (usage.used_tokens, usage.limit_tokens) == (720, 2000)
            assert usage.messages == 2

    run(play())


def test_compacting_keeps_what_is_pinned_and_what_is_recent(tmp_path: Path) -> None:
    async def play() -> None:
        talk = [Say(text=f"answer {number} " + "word " * 100) for number in range(6)]
        folds = [Say(text="We began."), Say(text="We talked.")]
        async with scene(tmp_path, *talk, *folds, profile=SMALL) as stage:
            session = await stage.session()
            for number in range(6):
                await stage.engine.generate(session.id, f"hello {number}")
                if number == 0:
                    await stage.engine.pin(session.id, 0)
            before = await stage.engine.history(session.id)
            assert await stage.engine.compact(session.id)
            after = await stage.engine.history(session.id)
            assert isinstance(after[0], Summary)
            assert after[0].text == "We talked."
            second = stage.model.asked[-1].messages[0]
            assert isinstance(second, UserMessage)
            assert second.text.startswith("Summary so far:\nWe began.\n\nMessages after it:\n")
            assert after[1] == before[0]
            assert after[-2:] == before[-2:]
            assert len(after) < len(before)
            with pytest.raises(BadSetting):
                await stage.engine.pin(session.id, 0)

    run(play())


def test_a_context_that_is_nearly_full_is_compacted_by_itself(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (
            Say(text="long", usage=Usage(input_tokens=100, output_tokens=10)),
            Say(text="longer", usage=Usage(input_tokens=1700, output_tokens=10)),
            Say(text="In short: greetings."),
            Say(text="Here."),
        )
        async with scene(tmp_path, *lines, profile=SMALL) as stage:
            session = await stage.session()
            for number in range(2):
                await stage.engine.generate(session.id, f"hello {number} " + "w " * 600)
            told = [event async for event in stage.engine.stream(session.id, "hello again")]
            (compacted,) = [event for event in told if event.kind == "compacted"]
            assert compacted.data["how"] == "summary"
            assert compacted.data["tokens_after"] < compacted.data["tokens_before"]
            assert told[-1].data["text"] == "Here."
            first = stage.model.asked[-1].messages[0]
            assert isinstance(first, Summary)
            assert first.text == "In short: greetings."

    run(play())


def test_a_summary_that_fails_drops_the_oldest_with_a_note(tmp_path: Path) -> None:
    async def play() -> None:
        lines = (
            *[Say(text="yes")] * 3,
            Say(error=ContextTooLong("too long")),
            Say(error=ModelOverloaded("too busy")),
            Say(text="I go on."),
        )
        async with scene(tmp_path, *lines, profile=SMALL) as stage:
            session = await stage.session()
            for number in range(3):
                await stage.engine.generate(session.id, f"hello {number} " + "w " * 400)
            told = [event async for event in stage.engine.stream(session.id, "hello at last")]
            (compacted,) = [event for event in told if event.kind == "compacted"]
            assert compacted.data["how"] == "dropped"
            assert told[-1].data["text"] == "I go on."
            first = (await stage.engine.history(session.id))[0]
            assert isinstance(first, Summary)
            assert "were dropped" in first.text

    run(play())


def test_a_window_smaller_than_was_thought_is_made_do_with(tmp_path: Path) -> None:
    """By our count all of it is a small part of the window; the provider knows better."""

    async def play() -> None:
        lines = (
            Say(text="yes"),
            Say(error=ContextTooLong("too long")),
            Say(text="In short."),
            Say(text="I go on."),
        )
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            await stage.engine.generate(session.id, "hello " + "w " * 400)
            answer = await stage.engine.generate(session.id, "hello again")
            assert (answer.end, answer.text) == ("done", "I go on."), answer
            assert [type(one) for one in stage.model.asked[-1].messages][:1] == [Summary]

    run(play())


def test_a_small_model_is_shown_no_more_of_a_result_than_it_can_read(tmp_path: Path) -> None:
    async def play() -> None:
        counted = Say(calls=(call("bash", command="seq 1 5000"),))
        async with scene(tmp_path, counted, Say(text="Done."), profile=SMALL) as stage:
            session = await stage.session()
            answer = await stage.engine.generate(session.id, "run it")
            assert answer.end == "done", answer
            (shown,) = results(await stage.engine.history(session.id))
            assert len(shown) < 2000
            assert (shown.startswith("1\n2\n"), shown.endswith("4999\n5000")) == (True, True)
            assert "characters in the middle are left out" in shown

    run(play())


def test_a_rolling_summary_outlives_the_program_is_shown_and_folded_into_the_next(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        database = Database(f"sqlite:///{tmp_path / 'crucible.db'}")
        memory = Memory(database, extractor=RuleExtractor())
        given: dict[str, Any] = {"profile": SMALL, "memory": SessionMemory(memory)}
        talk = [Say(text=f"answer {number} " + "word " * 100) for number in range(4)]
        async with scene(tmp_path, *talk, Say(text="We spoke of boats."), **given) as stage:
            session = await stage.session()
            for number in range(4):
                await stage.engine.generate(session.id, f"hello {number}")
            assert await stage.engine.compact(session.id)
            shown = await memory.summary("local", session.id)
            assert shown is not None
            assert (shown.text, shown.covers) == ("We spoke of boats.", 4)
        more = [Say(text=f"answer {number} " + "word " * 100) for number in range(4)]
        folded = "Boats. Their password is hunter2. Then trams."
        async with scene(tmp_path, *more, Say(text=folded), Say(text="Yes."), **given) as later:
            history = await later.engine.history(session.id)
            assert history[0] == Summary(text="We spoke of boats.", replaced=4)
            for number in range(3):
                await later.engine.generate(session.id, f"more {number}")
            assert await later.engine.compact(session.id)
            asked = later.model.asked[-1].messages[0]
            assert isinstance(asked, UserMessage)
            assert asked.text.startswith("Summary so far:\nWe spoke of boats.\n\n")
            assert "hello 0" not in asked.text
            (shown,) = await memory.summaries("local")
            assert "hunter2" not in shown.text
            assert shown.covers > 4
            await later.engine.clear(session.id)
            assert await memory.summaries("local") == []
        database.close()

    run(play())


def test_clearing_forgets_the_conversation(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say(text="Hi."), Say(text="New.")) as stage:
            session = await stage.session()
            await stage.engine.generate(session.id, "hello")
            await stage.engine.clear(session.id)
            assert await stage.engine.history(session.id) == ()
            await stage.engine.generate(session.id, "hello")
            assert len(stage.model.asked[-1].messages) == 1
        async with scene(tmp_path) as later:
            assert len(await later.engine.history(session.id)) == 2

    run(play())


def _message(number: int, kind: str) -> list[Message]:
    text = f"{kind} {number} " + "x" * (number * 37 % 900)
    call = ToolCall(id=f"c{number}", name="ls", arguments="{}")
    match kind:
        case "user":
            return [UserMessage(text=text)]
        case "pinned":
            return [UserMessage(text=text, is_pinned=True)]
        case "said":
            return [AssistantMessage(parts=(Text(text=text),))]
        case "summary":
            return [Summary(text=text, replaced=3)]
        case _:
            result = ToolResult(call_id=call.id, name="ls", text=text)
            return [AssistantMessage(parts=(call,)), ToolMessage(results=(result,))]


@given(st.lists(st.sampled_from(["user", "pinned", "said", "called", "summary"]), max_size=30))
def test_no_cut_parts_a_call_from_its_result_or_loses_what_is_pinned(kinds: list[str]) -> None:
    messages = [one for number, kind in enumerate(kinds) for one in _message(number, kind)]
    cut = choose_cut(messages, room_for_recent(SMALL))
    if cut is None:
        return
    assert (*cut.old, *cut.recent) == tuple(messages)
    after = joined(cut, "short")
    for at, message in enumerate(after):
        if isinstance(message, ToolMessage):
            before = after[at - 1]
            assert isinstance(before, AssistantMessage)
            assert before.calls
    assert [one for one in messages if is_pinned(one)] == [one for one in after if is_pinned(one)]
    assert len(after) <= len(messages) + 1
