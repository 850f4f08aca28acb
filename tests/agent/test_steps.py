"""Steps as checkpoints where the sandbox cannot be snapshot, and where it can: what is told, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agent.places import LocalWorkplace
from tests.agent.scenes import LocalPlaces, Say, call, results, run, scene

from crucible.agent.options import CheckpointWish, SessionOptions
from crucible.agent.workplace import Checkpoint, Workplace
from crucible.errors import NotEnoughMemory, StepMissing, Unsupported

ON = CheckpointWish(is_on=True, keep=2)
WORK = (
    Say(calls=(call("bash", id="a", command="echo one > a"),)),
    Say(calls=(call("bash", id="b", command="echo two > a"),)),
    Say(text="Two."),
)


class NoSnapshots(LocalWorkplace):
    """Of a backend that has none, such as a worker or a remote provider."""

    async def checkpoint(self) -> Checkpoint:
        raise Unsupported("Backend 'worker' has no snapshots and forks")

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        return ()

    async def rewind(self, checkpoint: str) -> None:
        raise Unsupported("Backend 'worker' has no snapshots and forks")

    async def forget(self, checkpoint: str) -> None:
        pass

    async def branch(self, checkpoint: str, *, session: str) -> Workplace:
        raise Unsupported("Backend 'worker' has no snapshots and forks")


class Copied(NoSnapshots):
    """Keeps the files of each moment; `fails` is what a rewind meets."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: dict[str, bytes | None] = {}
        self.fails: Exception | None = None

    async def checkpoint(self) -> Checkpoint:
        file = self.root / "workspace" / "a"
        name = f"k{len(self.moments)}"
        self.moments[name] = file.read_bytes() if file.exists() else None
        return Checkpoint(id=name, taken_at=1.0, bytes=1, duration_s=0.0)

    async def rewind(self, checkpoint: str) -> None:
        if self.fails is not None:
            raise self.fails
        self._put(self, self.moments[checkpoint])

    async def branch(self, checkpoint: str, *, session: str) -> Workplace:
        other = Copied()
        await other.open()
        self._put(other, self.moments[checkpoint])
        return other

    async def forget(self, checkpoint: str) -> None:
        del self.moments[checkpoint]

    def _put(self, place: LocalWorkplace, data: bytes | None) -> None:
        file = place.root / "workspace" / "a"
        file.unlink(missing_ok=True)
        if data is not None:
            file.write_bytes(data)


class Places(LocalPlaces):
    def __init__(self, kind: type[LocalWorkplace]) -> None:
        super().__init__()
        self._kind = kind

    def workplace(self, session: str, options: SessionOptions, *, had_sandbox: bool) -> Workplace:
        return self.made.setdefault(session, self._kind())


@pytest.mark.parametrize("kind", [LocalWorkplace, NoSnapshots])
def test_where_nothing_can_be_snapshot_work_goes_on_and_is_told(tmp_path: Path, kind: Any) -> None:
    async def play() -> None:
        places = Places(kind)
        async with scene(tmp_path, *WORK, workplaces=places) as stage:
            session = await stage.session(checkpoints=ON)
            notices = [
                event.data["text"]
                async for event in stage.engine.stream(session.id, "run it")
                if event.kind == "notice"
            ]
            assert len(notices) == 2
            assert all("snapshot" in text for text in notices)
            history = await stage.engine.history(session.id)
            assert len(results(history)) == 2
            for verb in (stage.engine.rewind(session.id, 1), stage.engine.branch(session.id, 1)):
                with pytest.raises(StepMissing, match="none yet"):
                    await verb
            assert await stage.engine.history(session.id) == history
        await places.close()

    run(play())


def test_a_rewind_that_fails_changes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        places = Places(Copied)
        async with scene(tmp_path, *WORK, workplaces=places) as stage:
            session = await stage.session(checkpoints=ON)
            await stage.engine.generate(session.id, "run it")
            before = await stage.engine.history(session.id)
            place = places.made[session.id]
            assert isinstance(place, Copied)
            place.fails = NotEnoughMemory(256, 0)
            with pytest.raises(NotEnoughMemory):
                await stage.engine.rewind(session.id, 1)
            assert await stage.engine.history(session.id) == before
            assert len(place.moments) == 2
            assert (await stage.engine.session(session.id)).state == "idle"
            place.fails = None
            assert await stage.engine.rewind(session.id, 1) == 2
            assert len(await stage.engine.history(session.id)) == 3
            assert await place.read("/workspace/a") == b"one\n"
        await places.close()

    run(play())


def test_a_branch_begins_where_a_step_began(tmp_path: Path) -> None:
    async def play() -> None:
        places = Places(Copied)
        again = Say(calls=(call("bash", id="c", command="cat a"),))
        async with scene(tmp_path, *WORK, again, Say(text="One."), workplaces=places) as stage:
            session = await stage.session(checkpoints=ON)
            await stage.engine.generate(session.id, "run it")
            other = await stage.engine.branch(session.id, 2)
            assert (other.parent, other.state, other.messages) == (session.id, "interrupted", 3)
            turn = await stage.engine.resume(other.id)
            assert (await turn.wait()).end == "done"
            assert results(await stage.engine.history(other.id)) == ["[no output]", "one"]
            assert await places.made[session.id].read("/workspace/a") == b"two\n"
            await stage.engine.destroy(other.id)
        await places.close()

    run(play())
