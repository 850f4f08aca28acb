"""Whole turns over real HTTP in the providers' own formats, with tools that work in a real sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scenes import results
from tests.agent.tool_claims import Bench, long_sleep
from tests.conftest import SMALL, Run
from tests.providers.server import FLAVOURS
from tests.providers.turns import Turn, Use
from tests.vm.turn_stage import TurnStage, a_session, bash, told_results, turn_stage

from crucible.agent.facts import ApprovalAnswer
from crucible.agent.messages import AssistantMessage, Summary, ToolMessage
from crucible.agent.options import Limits, PolicyRules

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("run")]

CLAUDE = "anthropic:claude-sonnet-4-6"
GPT = "openai:gpt-5.1"
FREELY = PolicyRules(default="allow")


@pytest.fixture(scope="module")
def stage(small_home: Path, run: Run) -> Iterator[TurnStage]:
    with turn_stage(small_home, run, SMALL) as made:
        yield made


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_tools_are_called_side_by_side_in_the_format_of(
    stage: TurnStage, flavour: str
) -> None:
    """Each of the two commands waits for the other: one after the other, neither would end."""
    one, other = f"/tmp/{flavour}-1", f"/tmp/{flavour}-2"
    meet = "mkfifo {one} {other} 2>/dev/null; echo from {name} > {other} & cat {one}; wait"
    uses = (
        bash(meet.format(one=one, other=other, name="here"), timeout_s=120),
        bash(meet.format(one=other, other=one, name="there"), timeout_s=120),
    )
    async with a_session(stage, f"{flavour}:test-model", policy=FREELY) as session:
        answer = await stage.ask(
            session, "run both", Turn(text="I run them.", uses=uses), Turn(text="They met.")
        )
        assert (answer.end, answer.text) == ("done", "They met."), answer
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (240, 60)
        first, last = stage.server.requests
        assert (first.flavour, last.flavour) == (flavour, flavour)
        assert told_results(first) == []
        assert told_results(last) == ["from there", "from here"]
        place = (await stage.engine.session(session)).place
        assert place is not None
        assert place.isolation in ("software-vm", "hardware-vm")


async def test_a_failing_program_is_mended_step_by_step(stage: TurnStage) -> None:
    wrong = "def mean(numbers):\n    return sum(numbers) / len(number)\n\nprint(mean([1, 2, 6]))\n"
    path = "/workspace/mean.py"
    async with a_session(stage, CLAUDE) as session:
        answer = await stage.ask(
            session,
            "write mean.py and make it run",
            Turn(uses=(Use(name="write", arguments={"path": path, "content": wrong}),)),
            Turn(thinking="It must run.", uses=(bash("python3 mean.py"),)),
            Turn(uses=(Use(name="read", arguments={"path": path}),)),
            Turn(
                uses=(
                    Use(
                        name="edit",
                        arguments={
                            "path": path,
                            "old_string": "len(number)",
                            "new_string": "len(numbers)",
                        },
                    ),
                )
            ),
            Turn(uses=(bash("python3 mean.py"),)),
            Turn(text="It prints 3.0."),
        )
        assert (answer.end, answer.text) == ("done", "It prints 3.0."), answer
        seen = [told_results(one) for one in stage.server.requests[1:]]
        assert "NameError" in seen[1][0]
        assert "len(number)" in seen[2][0]
        assert seen[4] == ["3.0"]
        assert "sum(numbers) / len(numbers)" in await stage.says(f"cat {path}")


async def test_one_call_is_approved_and_another_denied(stage: TurnStage) -> None:
    rules = PolicyRules(ask=("bash(touch *)",))
    async with a_session(stage, GPT, policy=rules) as session:
        stage.script(
            Turn(uses=(bash("touch /tmp/allowed"), bash("touch /tmp/denied"))),
            Turn(text="Only one."),
        )
        turn = await stage.engine.begin(session, "run both")
        async for event in stage.engine.events(session):
            if event.kind == "approval-asked":
                is_good = "allowed" in event.data["subject"]
                given = ApprovalAnswer(
                    decision="once" if is_good else "deny", by="ana", note="not that one"
                )
                await stage.engine.answer_approval(event.data["id"], given)
            if event.kind == "turn-ended":
                break
        assert (await turn.wait()).text == "Only one."
        ran, refused = told_results(stage.server.requests[-1])
        assert ran == "[no output]"
        assert "ana did not approve it: not that one" in refused
        assert await stage.says("ls /tmp/allowed /tmp/denied 2>/dev/null || true") == (
            "/tmp/allowed\n"
        )


async def test_cancelling_leaves_the_provider_in_the_middle_of_its_answer(stage: TurnStage) -> None:
    async with a_session(stage, CLAUDE) as session:
        stage.script(
            Turn(uses=(bash("echo kept > /tmp/kept"),)),
            Turn(text="I have begun to say something long.", fault="stalled"),
        )
        await stage.until(session, "run it", "text", "")
        assert await stage.engine.cancel(session)
        await stage.gone(1)
        last = (await stage.engine.history(session))[-1]
        assert isinstance(last, AssistantMessage)
        assert not last.is_whole
        answer = await stage.ask(
            session, "go on", Turn(uses=(bash("cat /tmp/kept"),)), Turn(text="It was kept.")
        )
        assert (answer.end, answer.text) == ("done", "It was kept."), answer
        assert told_results(stage.server.requests[-1]) == ["kept"]


async def test_cancelling_ends_a_long_command_and_all_that_it_started(stage: TurnStage) -> None:
    sleep = long_sleep()
    stubborn = f"trap '' HUP INT TERM; setsid {sleep} & {sleep} & echo begun; wait"
    async with a_session(stage, CLAUDE, policy=FREELY) as session:
        stage.script(Turn(uses=(bash(stubborn, timeout_s=3000), bash("echo quick"))))
        done: set[str] = set()
        async with asyncio.timeout(240):
            async for event in stage.engine.stream(session, "run it"):
                if event.kind == "output" and "begun" in event.data["text"]:
                    done.add("begun")
                if event.kind == "result":
                    done.add("quick")
                if len(done) == 2:
                    break
        assert await stage.engine.cancel(session)
        message = (await stage.engine.history(session))[-1]
        assert isinstance(message, ToolMessage)
        assert message.results[0].text.startswith("cancelled")
        assert message.results[1].text == "quick"
        async with asyncio.timeout(240):
            await Bench(stage.place).nothing_runs(sleep)
        answer = await stage.ask(session, "go on", Turn(text="Nothing runs."))
        assert (answer.end, answer.text) == ("done", "Nothing runs.")


async def test_a_spent_budget_stops_the_turn_and_keeps_the_work(stage: TurnStage) -> None:
    """The prices are those of the model that is named; its longest answer costs about a dollar."""
    async with a_session(stage, CLAUDE, budget=Limits(usd=1.1)) as session:
        answer = await stage.ask(
            session,
            "run it",
            Turn(uses=(bash("echo half > /tmp/work"),), output_tokens=10_000),
            Turn(text="never said"),
        )
        assert (answer.end, answer.error["code"]) == ("budget-spent", "budget-spent"), answer
        assert len(stage.server.requests) == 1
        assert 0.15 <= answer.cost_usd < 0.16
        assert await stage.says("cat /tmp/work") == "half\n"
        await stage.engine.configure(session, {"budget": Limits(usd=2.4)})
        stage.script(Turn(uses=(bash("cat /tmp/work"),)), Turn(text="Half of it is there."))
        turn = await stage.engine.resume(session)
        assert (await turn.wait()).text == "Half of it is there."
        assert told_results(stage.server.requests[-1]) == ["half"]
        spent = (await stage.engine.session(session)).cost_usd
        assert 0.15 <= spent <= 2.4


async def test_a_full_context_is_compacted_and_the_work_goes_on(stage: TurnStage) -> None:
    """Once because the provider's count says that it is nearly full, once because the provider says it is too long."""
    async with a_session(stage, "ollama:test-model") as session:
        await stage.ask(
            session, "run it: remember /tmp/first", Turn(uses=(bash("echo 1 > /tmp/first"),)),
            Turn(text="Done."),
        )  # fmt: skip
        await stage.engine.pin(session, 0)
        await stage.ask(
            session, "run seq", Turn(uses=(bash("seq 1 3000"),)),
            Turn(text="Counted.", input_tokens=7000),
        )  # fmt: skip
        answer = await stage.ask(
            session, "run cat",
            Turn(text="A file was made and numbers were counted."),
            Turn(uses=(bash("cat /tmp/first"),), input_tokens=500),
            Turn(fault="context-too-long"),
            Turn(text="The file was read."),
            Turn(text="It holds 1."),
        )  # fmt: skip
        assert (answer.end, answer.text) == ("done", "It holds 1."), answer
        told = [one async for one in _until_end(stage, session, answer.turn)]
        assert [one.data["how"] for one in told if one.kind == "compacted"] == ["summary"] * 2
        history = await stage.engine.history(session)
        assert isinstance(history[0], Summary)
        assert history[0].text == "The file was read."
        words = str(stage.server.requests[-1].body["messages"])
        assert "remember /tmp/first" in words
        assert "1999" not in words


@pytest.mark.parametrize("model", [CLAUDE, GPT])
async def test_an_object_is_repaired_after_its_faults_were_told(
    stage: TurnStage, model: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"lines": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["lines", "name"],
        "additionalProperties": False,
    }
    async with a_session(stage, model) as session:
        answer = await stage.ask(
            session, "run wc and tell of it",
            Turn(uses=(bash("seq 1 12 > /tmp/twelve; wc -l < /tmp/twelve"),)),
            Turn(object={"lines": "twelve"}),
            Turn(object={"lines": 12, "name": "/tmp/twelve"}),
            schema=schema,
        )  # fmt: skip
        assert answer.end == "done", answer
        assert answer.value == {"lines": 12, "name": "/tmp/twelve"}
        told = str(stage.server.requests[-1].body["messages"][-1])
        assert "name" in told
        assert "lines" in told
        assert results(await stage.engine.history(session))[0] == "12"


async def _until_end(stage: TurnStage, session: str, number: int) -> Any:
    async for event in stage.engine.events(session):
        if event.turn == number:
            yield event
            if event.kind == "turn-ended":
                return
