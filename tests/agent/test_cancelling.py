"""A turn can be stopped at any moment, and what it leaves can be gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.agent.scenes import Say, call, run, scene

from crucible.agent.lanes import LaneLimits
from crucible.agent.messages import AssistantMessage, ToolMessage


def test_cancelling_leaves_the_model_call_and_keeps_what_was_said(tmp_path: Path) -> None:
    async def play() -> None:
        never = asyncio.Event()
        lines = (Say(text="half of it", amid=never), Say(text="The rest."))
        async with scene(tmp_path, *lines) as stage:
            session = await stage.session()
            async for event in stage.engine.stream(session.id, "hello"):
                if event.kind == "text" and event.data["text"] == "it":
                    break
            assert await stage.engine.cancel(session.id)
            assert stage.model.left == 1
            history = await stage.engine.history(session.id)
            last = history[-1]
            assert isinstance(last, AssistantMessage)
            assert (last.text, last.is_whole) == ("half of it", False)
            facts = await stage.engine.session(session.id)
            assert facts.state == "idle"
            assert (await stage.engine.generate(session.id, "go on")).text == "The rest."

    run(play())


def test_cancelling_kills_the_command_and_answers_every_call(tmp_path: Path) -> None:
    long = "echo begun; echo $$ > pid; sleep 1000"
    calls = (call("bash", id="a", command=long), call("bash", id="b", command="echo quick"))

    async def play() -> None:
        async with scene(tmp_path, Say(calls=calls), Say(text="Well.")) as stage:
            session = await stage.session()
            done: set[str] = set()
            async for event in stage.engine.stream(session.id, "run both"):
                if event.kind == "output" and event.data["text"].startswith("begun"):
                    done.add("begun")
                if event.kind == "result":
                    done.add("quick")
                if len(done) == 2:
                    break
            await stage.engine.cancel(session.id)
            message = (await stage.engine.history(session.id))[-1]
            assert isinstance(message, ToolMessage)
            assert [one.call_id for one in message.results] == ["a", "b"]
            assert message.results[0].text.startswith("cancelled")
            assert "quick" in message.results[1].text
            alive = await stage.places.made[session.id].run(
                ("sh", "-c", "ls -d /proc/[0-9]* | wc -l"), timeout_s=60
            )
            assert int(alive.stdout) <= 4
            assert (await stage.engine.generate(session.id, "go on")).text == "Well."

    run(play())


def test_cancelling_before_the_first_step_still_ends_the_turn(tmp_path: Path) -> None:
    async def play() -> None:
        async with scene(tmp_path, Say(text="never said")) as stage:
            session = await stage.session()
            turn = await stage.engine.begin(session.id, "hello")
            assert await stage.engine.cancel(session.id)
            assert (await turn.wait()).end == "cancelled"
            assert not await stage.engine.cancel(session.id)

    run(play())


def test_a_cancel_does_not_wait_behind_queued_generations(tmp_path: Path) -> None:
    """All generations stand still for good: whatever waited for one would never be answered."""

    async def play() -> None:
        never = asyncio.Event()
        lines = [Say(text="x", before=never) for _ in range(50)]
        async with scene(tmp_path, *lines, lane_limits=LaneLimits(generate=16)) as stage:
            sessions = [await stage.session() for _ in range(50)]
            turns = [await stage.engine.begin(one.id, "hello") for one in sessions]
            while True:
                (generate,) = [one for one in stage.engine.lanes() if one.name == "generate"]
                if generate.running + generate.waiting == 50:
                    break
                await asyncio.sleep(0)
            assert generate.running == generate.limit < 50
            assert stage.engine.health().busy == 50
            assert (await stage.engine.session(sessions[-1].id)).state == "busy"
            for one, turn in zip(reversed(sessions), reversed(turns), strict=True):
                assert await stage.engine.cancel(one.id)
                assert (await turn.wait()).end == "cancelled"
            (generate,) = [one for one in stage.engine.lanes() if one.name == "generate"]
            assert (generate.running, generate.waiting) == (0, 0)

    run(play())
