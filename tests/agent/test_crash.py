"""A program that is killed in the middle of a turn leaves a session that the next one goes on with."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scenes import Line, Say, Scene, run, scene
from tests.agent.test_trust import Asks
from tests.conftest import ROOT

from crucible.agent.facts import ApprovalAnswer
from crucible.agent.journal import UNWRITTEN, Journal
from crucible.agent.keeping.base import SessionRecord
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.messages import AssistantMessage, ToolMessage, UserMessage
from crucible.agent.options import SessionOptions
from crucible.errors import NothingToResume
from crucible.store.database import Database


def killed_in(kind: str, root: Path) -> str:
    """The session of a program that was killed in the middle of it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agent.crashing", str(root), kind],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        # What it leaves behind goes with the test.
        env={**os.environ, "TMPDIR": str(root)},
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        said = program.stdout.readline().split()
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert said[:1] == [b"ready"]
    return said[1].decode()


@asynccontextmanager
async def next_one(root: Path, *lines: Line, **parts: Any) -> AsyncIterator[Scene]:
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    try:
        async with scene(root, *lines, store=SqlSessions(database), **parts) as stage:
            yield stage
    finally:
        database.close()


def test_killed_in_a_model_call_it_is_asked_again(tmp_path: Path) -> None:
    session = killed_in("model", tmp_path)

    async def play() -> None:
        async with next_one(tmp_path, Say(text="The whole of it.")) as stage:
            assert (await stage.engine.session(session)).state == "interrupted"
            history = await stage.engine.history(session)
            assert [type(one) for one in history] == [UserMessage, AssistantMessage, ToolMessage]
            # One who watched has seen more than the program that died had written.
            seen = (await stage.engine.session(session)).last_event - UNWRITTEN + 50
            async for event in stage.engine.events(session, after=seen):
                assert (event.kind, event.data["end"]) == ("turn-ended", "interrupted")
                break
            turn = await stage.engine.resume(session)
            assert (await turn.wait()).text == "The whole of it."
            assert len(stage.model.asked[0].messages) == 3
            with pytest.raises(NothingToResume):
                await stage.engine.resume(session)

    run(play())


def test_what_was_told_after_a_turn_has_a_number_that_is_never_given_again(tmp_path: Path) -> None:
    """What is learned is told when no turn is under way, and a program may die before that is written."""

    async def play() -> None:
        async with next_one(tmp_path, Say(text="Noted.")) as stage:
            session = (await stage.engine.create_session(SessionOptions())).id
            await (await stage.engine.begin(session, "I like tea")).wait()
        seen = await _told_and_killed(tmp_path, session)
        async with next_one(tmp_path, Say(text="With milk?")) as stage:
            turn = await stage.engine.begin(session, "Go on")
            assert turn.first_event > seen
            await turn.wait()
            # Who has seen it and comes back misses nothing.
            async for event in stage.engine.events(session, after=seen):
                assert (event.number, event.kind) == (turn.first_event, "turn-began")
                break

    run(play())


async def _told_and_killed(root: Path, session: str) -> int:
    """The number that a watcher saw of what was told last, and never written."""
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    store = SqlSessions(database)
    kept = await store.load(session)

    def head() -> SessionRecord:
        return replace(kept.record, last_event=journal.last_number)

    last = kept.last_event
    journal = Journal(
        store, session=session, head=head, messages=len(kept.messages), last_event=last
    )
    await journal.promise(1)
    told = journal.tell(1, "remembered", {"facts": ["likes tea"]})
    async with aclosing(journal.watch(last)) as watching:
        seen = await anext(watching)
    assert seen == told
    assert journal._writer is not None
    journal._writer.cancel()
    await asyncio.wait({journal._writer})
    assert (await store.load(session)).last_event == last
    database.close()
    return seen.number


def test_killed_in_a_command_its_call_is_said_to_be_interrupted(tmp_path: Path) -> None:
    session = killed_in("tool", tmp_path)

    async def play() -> None:
        async with next_one(tmp_path, Say(text="I look first.")) as stage:
            message = (await stage.engine.history(session))[-1]
            assert isinstance(message, ToolMessage)
            quick, long = message.results
            assert "quick" in quick.text
            assert not quick.is_error
            assert long.text.startswith("interrupted")
            ends = [one async for one in _ended(stage, session)]
            assert ends[-1].data["end"] == "interrupted"
            turn = await stage.engine.resume(session)
            assert (await turn.wait()).end == "done"

    run(play())


def test_killed_while_it_waits_for_an_approval_it_waits_on(tmp_path: Path) -> None:
    session = killed_in("approval", tmp_path)

    async def play() -> None:
        async with next_one(tmp_path, Say(text="It ran."), judge=Asks()) as stage:
            assert (await stage.engine.session(session)).state == "waiting"
            (approval,) = (await stage.engine.session(session)).approvals
            while not await stage.engine.approvals(session):
                await _a_moment()
            given = ApprovalAnswer(decision="once", by="ana")
            await stage.engine.answer_approval(approval, given)
            ends = [one async for one in _ended(stage, session)]
            assert (ends[-1].data["end"], ends[-1].data["text"]) == ("done", "It ran.")
            message = (await stage.engine.history(session))[-2]
            assert isinstance(message, ToolMessage)
            assert "approved" in message.results[0].text

    run(play())


async def _a_moment() -> None:
    import asyncio

    await asyncio.sleep(0)


async def _ended(stage: Scene, session: str):  # type: ignore[no-untyped-def]
    async for event in stage.engine.events(session):
        yield event
        if event.kind == "turn-ended":
            return
