"""What conversations do in a real sandbox: files given, a branch with a copy of it, changes written to the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.agent.scenes import Builtin, OneModel, Played, Say, call, results
from tests.conftest import SMALL

from crucible import assemble
from crucible.agent.engine import Engine
from crucible.agent.facts import Attachment
from crucible.agent.keeping.files import JsonFiles
from crucible.agent.options import SandboxWish, SessionOptions
from crucible.agent.parts import Parts
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.config import Config
from crucible.sandbox.service.dispatch import Service
from crucible.server.changes import apply_to_host, find_changes

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("run")]


class SmallPlaces:
    def __init__(self, room: SandboxRoom) -> None:
        self._room = room

    def check(self, options: SessionOptions) -> None:
        pass

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        wanted = Wanted(spec=SMALL, host_directory=options.sandbox.directory or None)
        return SandboxWorkplace(self._room, name_of(session), wanted)


@asynccontextmanager
async def playing(home: Path, root: Path, model: Played) -> AsyncIterator[tuple[Engine, Service]]:
    service = Service(assemble.manager(Config(home=home, pulls_images=False)))
    room = SandboxRoom(
        manager=service.manager, executions=service.executions, snapshots=service.snapshots
    )
    parts = Parts(
        store=JsonFiles(root / "sessions"),
        models=OneModel(model),
        workplaces=SmallPlaces(room),
        toolbox=Builtin(),
    )
    try:
        async with Engine(parts) as engine:
            yield engine, service
            for id in await engine.all_ids():
                await engine.destroy(id)
    finally:
        await service.close()
        service.manager.records.close()


async def test_given_files_branches_and_changes_are_of_the_real_sandbox(
    small_home: Path, tmp_path: Path
) -> None:
    project, given = tmp_path / "project", tmp_path / "given"
    project.mkdir()
    (project / "old.txt").write_text("old\n")
    given.write_bytes(b"a,b\n1,2\n")
    model = Played(
        Say(
            calls=(call("bash", command="cat data.csv; echo new > old.txt; mkdir d; echo x > d/y"),)
        ),
        Say(text="Read."),
        Say(calls=(call("bash", command="cat old.txt data.csv; echo mine > data.csv"),)),
        Say(text="Branched."),
    )
    async with asyncio.timeout(300), playing(small_home, tmp_path, model) as (engine, service):
        wish = SandboxWish(directory=str(project))
        session = (await engine.create_session(SessionOptions(sandbox=wish, memory=False))).id
        file = Attachment(name="data.csv", media_type="text/csv", size=8, path=given)
        turn = await engine.begin(session, "Read it", intent="agent", attachments=(file,))
        assert (await turn.wait()).text == "Read."
        assert results(await engine.history(session)) == ["a,b\n1,2"]

        other = await engine.branch_turn(session, 1)
        assert other.place is not None
        assert other.place.isolation in ("software-vm", "hardware-vm")
        answer = await engine.generate(other.id, "And you", intent="agent")
        assert answer.text == "Branched."
        assert results(await engine.history(other.id))[-1] == "new\na,b\n1,2"

        place = (await engine.session(session)).place
        assert place is not None
        found = await find_changes(service.manager, place.name)
        names = {one.name for one in found.changes.all}
        assert names == {b"old.txt", b"data.csv", b"d", b"d/y"}
        applied = await apply_to_host(found, ["d/y", "../outside", "old.txt"])
        assert {one.name for one in applied.done} == {b"old.txt", b"d", b"d/y"}
        assert applied.refused == []
        assert (project / "old.txt").read_text() == "new\n"
        assert (project / "d" / "y").read_text() == "x\n"
        assert not (project / "data.csv").exists()
        left = await find_changes(service.manager, place.name)
        assert {one.name for one in left.changes.all} == {b"data.csv"}
