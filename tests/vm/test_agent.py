"""Whole turns in real sandboxes, by the engine as the program puts it together.

All tests share one engine and one home; what a session needs of a sandbox of its own it opens.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.scenes import OneModel, Played, Say, call, results
from tests.conftest import Run

from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.facts import ApprovalAnswer, Attachment
from crucible.agent.options import CheckpointWish, PolicyRules, SandboxWish, SessionOptions
from crucible.agent.places.checkpoints import Checkpoints
from crucible.agent.places.opening import Wanted
from crucible.agent.places.wishes import SandboxPlaces
from crucible.config import Config
from crucible.errors import NotEnoughMemory
from crucible.sandbox.holding import Held
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.seeding import baseline_of
from crucible.sandbox.service.dispatch import Service
from crucible.sandbox.workspace.changes import compare
from crucible.sandbox.workspace.manifest import collect, parse_manifest

pytestmark = pytest.mark.vm

SECRET, VALUE = "MODEL_KEY", "sk-nobody-may-read-this"


class Stage:
    """An engine whose model says what the test wrote; all else is real."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.model = Played()
        parts = assemble._engine_parts(service)
        places = parts.workplaces
        assert isinstance(places, SandboxPlaces)
        self.room = places._room
        places._environment = {SECRET: VALUE}
        self.engine = Engine(replace(parts, models=OneModel(self.model)))


@pytest.fixture(scope="module")
def stage(module_home: Path, run: Run) -> Iterator[Stage]:
    made = Stage(Service(assemble.manager(Config(home=module_home))))
    run(made.engine.start())
    yield made

    async def close() -> None:
        for session in await made.engine.sessions():
            await made.engine.destroy(session.id)
        await made.engine.close()
        await made.service.manager.hands.let_all_go()

    run(close())
    made.service.manager.records.close()


def test_a_program_is_mended_in_a_sandbox_and_replayed_in_another(
    stage: Stage, run: Run, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.write_text("seven\n")

    async def play() -> None:
        stage.model.lines = [
            Say(calls=(call("write", path="/workspace/a.py", content="print(1/0)\n"),)),
            Say(calls=(call("bash", command="python3 a.py"),)),
            Say(calls=(call("write", path="/workspace/a.py", content="print(6*7)\n"),)),
            Say(
                calls=(
                    call("bash", id="x", command="python3 a.py"),
                    call("bash", id="y", command="id -u; cat given.txt"),
                )
            ),
            Say(text="It prints 42."),
        ]
        session = await stage.engine.create_session(SessionOptions(memory=False))
        file = Attachment(name="given.txt", media_type="text/plain", size=6, path=given)
        answer = await stage.engine.generate(
            session.id, "write a program and run it", attachments=(file,)
        )
        assert (answer.end, answer.text) == ("done", "It prints 42."), answer
        given.unlink()
        seen = results(await stage.engine.history(session.id))
        assert "ZeroDivisionError" in seen[1]
        assert "42" in seen[3]
        assert "seven" in seen[4]
        place = (await stage.engine.session(session.id)).place
        assert place is not None
        assert place.isolation in ("software-vm", "hardware-vm")
        again = await stage.engine.replay(session.id)
        assert again.divergence is None, again
        assert (again.calls, again.same) == (5, 5)
        await stage.engine.destroy(session.id)

    run(play())


def test_a_step_is_taken_back_after_an_approval(stage: Stage, run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("before\n")

    async def play() -> None:
        stage.model.lines = [
            Say(calls=(call("bash", command="echo one > a"),)),
            Say(calls=(call("bash", command="echo two > a"),)),
            Say(text="Two."),
            Say(calls=(call("bash", command="echo three >> a; cat a"),)),
            Say(text="Three."),
            Say(calls=(call("bash", command="cat a"),)),
            Say(text="One again."),
        ]
        session = await stage.engine.create_session(
            SessionOptions(
                memory=False,
                policy=PolicyRules(ask=("bash(echo two*)",)),
                checkpoints=CheckpointWish(is_on=True, keep=2),
                sandbox=SandboxWish(directory=str(tmp_path)),
            )
        )
        turn = await stage.engine.begin(session.id, "run it")
        async for event in stage.engine.events(session.id):
            if event.kind == "approval-asked":
                given = ApprovalAnswer(decision="once", by="ana")
                await stage.engine.answer_approval(event.data["id"], given)
            if event.kind == "turn-ended":
                break
        assert (await turn.wait()).text == "Two."
        await _rewinding_fails(stage, session.id)
        off = CheckpointWish(is_on=False, keep=2)
        await stage.engine.configure(session.id, {"checkpoints": off})
        await _branched(stage, session.id)
        await stage.engine.rewind(session.id, 1)
        assert await _changes(stage, session.id) == {b"a": "added"}
        answer = await stage.engine.generate(session.id, "run cat")
        assert answer.end == "done", answer
        assert results(await stage.engine.history(session.id))[-1].startswith("one")
        await stage.engine.destroy(session.id)
        assert stage.service.manager.records.snapshots() == []

    run(play())


class _NoRestore:
    """Snapshots of which none can be started from: the host has no room, say."""

    async def restore(self, tag: str, name: str, *, like: SandboxRecord | None = None) -> Held:
        raise NotEnoughMemory(256, 0)


async def _rewinding_fails(stage: Stage, session: str) -> None:
    """The state before it is still there, with its memory, and the checkpoint too."""
    name = f"agent-{session}"
    before = stage.service.manager.running(name)
    newest = stage.service.manager.records.snapshots()[-1]
    room = replace(stage.room, snapshots=_NoRestore())  # type: ignore[arg-type]
    with pytest.raises(NotEnoughMemory):
        await Checkpoints(room, name, Wanted()).restore(newest.tag)
    assert stage.service.manager.running(name) is before
    assert before.record.name == name
    assert b"two" in b"".join([piece async for piece in before.machine.files.read(b"/workspace/a")])


async def _changes(stage: Stage, session: str) -> dict[bytes, str]:
    """What `crucible diff` tells of the session's sandbox."""
    held = stage.service.manager.running(f"agent-{session}")
    _, path = baseline_of(held.record)
    tree = held.machine.files.tree(held.image.workspace.encode(), hashed=True)
    now = collect([entry async for entry in tree])
    changes = compare(parse_manifest(path.read_bytes().splitlines(keepends=True)), now)
    return {one.name: str(one.kind) for one in changes.all}


async def _branched(stage: Stage, session: str) -> None:
    """Another session from a real checkpoint, with files and messages as they were; the first goes on as it is."""
    facts = await stage.engine.session(session)
    other = await stage.engine.branch(session, 2)
    assert other.parent == session
    assert other.messages < facts.messages
    turn = await stage.engine.begin(other.id, "run it")
    assert (await turn.wait()).end == "done"
    assert results(await stage.engine.history(other.id))[-1] == "one\nthree"
    first = stage.service.manager.running(f"agent-{session}")
    data = b"".join([piece async for piece in first.machine.files.read(b"/workspace/a")])
    assert data == b"two\n"
    await stage.engine.destroy(other.id)


def _files_with(text: str, *places: Path) -> list[Path]:
    """Of these files, and of those beneath directories. One that goes meanwhile was somebody's for a moment."""
    found: list[Path] = []
    walked = [
        Path(root, name) for place in places for root, _, names in os.walk(place) for name in names
    ]
    for path in (*walked, *places):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found += [path] if text.encode() in path.read_bytes() else []
    return found


def test_a_sessions_secret_is_used_inside_and_is_nowhere(stage: Stage, run: Run) -> None:
    """Programs have a placeholder and the provider's endpoint; the value is in no process, file, event or record."""
    look = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; grep -rs sk-nobody /run /etc /workspace /tmp; true"

    async def play() -> None:
        stage.model.lines = [Say(calls=(call("bash", command=look),)), Say(text="Nothing.")]
        wish = SandboxWish(secrets=(f"{SECRET}:api.anthropic.com",))
        session = await stage.engine.create_session(
            SessionOptions(memory=False, sandbox=wish, policy=PolicyRules(default="allow"))
        )
        await stage.engine.generate(session.id, "run it")
        seen = results(await stage.engine.history(session.id))[-1]
        assert f"{SECRET}=crucible-secret-model-key-" in seen
        assert "ANTHROPIC_BASE_URL=http://anthropic.crucible.internal" in seen
        told = [seen, repr(await stage.engine.session(session.id))]
        async for event in stage.engine.events(session.id):
            told.append(repr(event))
            if event.kind == "turn-ended":
                break
        assert VALUE not in "".join(told)
        held = stage.service.manager.running(f"agent-{session.id}")
        assert VALUE not in repr(held.record)
        home = stage.service.manager.config.home
        assert (
            _files_with(VALUE, home / "ledger", held.record.directory / "placeholders.json") == []
        )
        assert _files_with(VALUE, *home.glob("*.db*"), *home.glob("*.sqlite*")) == []
        assert _files_with("crucible-secret-", held.record.directory / "placeholders.json")
        await stage.engine.destroy(session.id)

    run(play())
