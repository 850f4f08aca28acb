"""What a session wishes of its sandbox, as the sandbox room is asked for it; which checkpoints are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crucible import assemble
from crucible.agent.options import (
    CheckpointWish,
    SandboxWish,
    SessionOptions,
    options_from_json,
)
from crucible.agent.places.checkpoints import Checkpoints, aside_of, put_back
from crucible.agent.places.opening import SandboxRoom, Wanted
from crucible.agent.places.wishes import SandboxPlaces, wanted_of
from crucible.backends.e2b.backend import E2BBackend
from crucible.backends.worker.address import by_command
from crucible.backends.worker.backend import WorkerBackend
from crucible.config import Config
from crucible.errors import (
    BadName,
    BadSetting,
    NameTaken,
    NotEnoughMemory,
    PathRefused,
    SnapshotMissing,
    Unsupported,
)
from crucible.sandbox.executions import Executions
from crucible.sandbox.holding import Held
from crucible.sandbox.machines import copying
from crucible.sandbox.records import SandboxRecord, SnapshotRecord, sandbox_directory
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SandboxRoom]:
    manager = assemble.manager(Config(home=tmp_path / "home"))
    yield SandboxRoom(manager=manager, executions=Executions(manager), snapshots=Snapshots(manager))
    manager.records.close()


def kept(room: SandboxRoom, tag: str, sandbox: str, at: float) -> Path:
    """A snapshot as the records have it, of which nothing but its directory is there."""
    directory = room.manager.config.home / "snapshots" / f"id-{tag}"
    directory.mkdir(parents=True)
    backend = room.manager.backends[0]
    room.manager.records.add_snapshot(
        SnapshotRecord(
            tag=tag, id=f"id-{tag}", state="saved", sandbox_name=sandbox, spec=SandboxSpec(),
            backend=backend.name, isolation="software-vm", image_digest="", created_at=at,
            directory=directory,
        )
    )  # fmt: skip
    return directory


def test_the_oldest_checkpoints_are_forgotten_and_nobody_elses(room: SandboxRoom) -> None:
    async def play() -> None:
        manager = room.manager
        oldest = kept(room, "agent-1", "agent-s", 1.0)
        for number in (3, 2, 4):
            kept(room, f"agent-{number}", "agent-s", float(number))
        kept(room, "mine", "agent-s", 0.0)
        kept(room, "agent-other", "agent-t", 0.0)
        checkpoints = Checkpoints(room, "agent-s", Wanted(checkpoints=2))
        await checkpoints.trim()
        assert [one.id for one in await checkpoints.all()] == ["agent-3", "agent-4"]
        assert not oldest.exists()
        for foreign in ("mine", "agent-other", "agent-1", "x" * 500):
            with pytest.raises(SnapshotMissing):
                await checkpoints.restore(foreign)
            with pytest.raises(SnapshotMissing):
                await checkpoints.copy(foreign, "agent-u")
            await checkpoints.forget(foreign)
        await checkpoints.forget_all()
        assert {one.tag for one in manager.records.snapshots()} == {"mine", "agent-other"}

    asyncio.run(play())


def standing(room: SandboxRoom, name: str) -> SandboxRecord:
    """A stopped sandbox as the records have it."""
    backend = room.manager.backends[0]
    record = SandboxRecord(
        id=name, name=name, state="stopped", spec=SandboxSpec(), created_at=1.0,
        directory=sandbox_directory(room.manager.config.home, name), backend=backend.name,
        isolation="software-vm", image_digest="", host_directory="/work",
    )  # fmt: skip
    record.directory.mkdir(parents=True)
    room.manager.records.add(record)
    return record


class NoRestore:
    """Snapshots of which none can be started from."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, SandboxRecord | None]] = []

    async def restore(self, tag: str, name: str, *, like: SandboxRecord | None = None) -> Held:
        self.asked.append((name, like))
        raise NotEnoughMemory(256, 0)


def test_a_rewind_that_fails_leaves_the_sandbox_as_it_was(room: SandboxRoom) -> None:
    async def play() -> None:
        before = standing(room, "agent-s")
        kept(room, "agent-1", "agent-s", 1.0)
        failing = NoRestore()
        failing_room = replace(room, snapshots=failing)  # type: ignore[arg-type]
        with pytest.raises(NotEnoughMemory):
            await Checkpoints(failing_room, "agent-s", Wanted()).restore("agent-1")
        assert room.manager.find("agent-s") == before
        assert [one.name for one in room.manager.records.sandboxes()] == ["agent-s"]
        ((name, like),) = failing.asked
        assert name == "agent-s"
        # What stands in its place is compared with the same directory of the host.
        assert like is not None
        assert (like.id, like.host_directory) == (before.id, "/work")
        assert [one.tag for one in room.manager.records.snapshots()] == ["agent-1"]

    asyncio.run(play())


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_rewind_that_was_cut_off_is_undone(room: SandboxRoom, has_begun: bool) -> None:
    async def play() -> None:
        before = standing(room, "agent-s")
        await room.manager.rename("agent-s", aside_of("agent-s"))
        if has_begun:
            room.manager.records.rename(standing(room, "agent-new").id, "agent-s")
        await put_back(room.manager, "agent-s")
        assert room.manager.find("agent-s") == before
        assert [one.id for one in room.manager.records.sandboxes()] == ["agent-s"]
        await put_back(room.manager, "agent-s")
        assert room.manager.find("agent-s") == before

    asyncio.run(play())


def test_two_sandboxes_never_have_one_name(room: SandboxRoom) -> None:
    async def play() -> None:
        standing(room, "one")
        standing(room, "two")
        with pytest.raises(NameTaken):
            await room.manager.rename("one", "two")
        with pytest.raises(BadName):
            await room.manager.rename("one", "../two")
        assert room.manager.find("one").id == "one"

    asyncio.run(play())


def test_backends_without_snapshots_say_so(tmp_path: Path) -> None:
    worker = WorkerBackend(worker=by_command(("crucible",), tmp_path), home=tmp_path)
    for backend in (worker, E2BBackend({"E2B_API_KEY": "e2b_" + "0" * 40})):
        with pytest.raises(Unsupported, match="no snapshots") as caught:
            copying(backend)
        assert backend.name in caught.value.message


def wanted_for(wish: SandboxWish) -> Wanted:
    return wanted_of(SessionOptions(sandbox=wish, checkpoints=CheckpointWish(keep=3)))


def test_a_session_that_wishes_nothing_has_no_network() -> None:
    wanted = wanted_for(SandboxWish())
    assert (wanted.spec.image, wanted.spec.network, wanted.host_directory) == ("base", "off", None)
    assert wanted.checkpoints == 3


def test_hosts_are_all_that_may_be_reached(tmp_path: Path) -> None:
    wish = SandboxWish(
        image="python", hosts=("pypi.org",), directory=str(tmp_path),
        memory_mib=1000, environment={"A": "b"},
    )  # fmt: skip
    spec = wanted_for(wish).spec
    assert (spec.network, spec.allow) == ("allowlist", ("pypi.org",))
    assert (spec.image, spec.memory_mib, spec.environment) == ("python", 1024, {"A": "b"})
    assert wanted_for(wish).host_directory == str(tmp_path.resolve())


def test_what_cannot_be_is_refused(tmp_path: Path, room: SandboxRoom) -> None:
    places = SandboxPlaces(room)
    for wish, error in (
        (SandboxWish(network="some"), BadSetting),
        (SandboxWish(memory_mib=1), BadSetting),
        (SandboxWish(hosts=("example.org", "not a host")), BadSetting),
        (SandboxWish(directory=str(tmp_path / "none")), PathRefused),
    ):
        with pytest.raises(error):
            places.check(SessionOptions(sandbox=wish))
    places.check(SessionOptions())


def test_secrets_are_taken_from_the_programs_own_variables(room: SandboxRoom) -> None:
    known = {"ANTHROPIC_API_KEY": "sk-the-value", "OTHER": "unasked"}
    wish = SandboxWish(secrets=("ANTHROPIC_API_KEY:api.anthropic.com", "GONE:example.com:x-key"))
    wanted = wanted_of(SessionOptions(sandbox=wish), (), known)
    assert wanted.spec.network == "allowlist"
    assert wanted.spec.secrets == (
        "ANTHROPIC_API_KEY:api.anthropic.com:x-api-key",
        "GONE:example.com:x-key",
    )
    assert [secret.value for secret in wanted.secrets] == ["sk-the-value"]
    assert "sk-the-value" not in repr(wanted) + repr(wish)
    with pytest.raises(BadSetting, match="GONE has no value"):
        SandboxPlaces(room, known).check(SessionOptions(sandbox=wish))


@pytest.mark.parametrize(
    "text",
    [
        "KEY=sk-value:example.com",
        "KEY",
        "KEY:",
        ":example.com",
        "KEY:a b",
        "K" * 600 + ":x.org",
        "KEY:x\n.org",
    ],
)
def test_a_value_has_no_place_among_a_sessions_secrets(text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        SandboxWish(secrets=(text,))
    assert "sk-value" not in caught.value.message + caught.value.hint
    with pytest.raises(BadSetting) as caught:
        options_from_json({"sandbox": {"secrets": [text]}})
    assert "sk-value" not in caught.value.message + caught.value.hint
    with pytest.raises(BadSetting):
        SandboxWish(secrets=("KEY:example.com",) * 33)


def test_a_sandbox_is_called_after_its_session(room: SandboxRoom) -> None:
    places = SandboxPlaces(room)
    place = places.workplace("ses-1", SessionOptions(), had_sandbox=False)
    assert place.name == "agent-ses-1"
    assert place.place is None
    with pytest.raises(BadName):
        places.workplace("../x", SessionOptions(), had_sandbox=False)
