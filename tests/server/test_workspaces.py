"""What a conversation's sandbox changed: brought to the host by who runs the server, as a zip to everybody else."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.scenes import Say
from tests.conftest import Run
from tests.server.agent_stage import Stage, agent_staging
from tests.server.chatting import API, said
from tests.server.scripted import PlayedFiles, played

from crucible.agent.workplace import Place
from crucible.server import gate
from crucible.server.tokens import Scope

pytestmark = pytest.mark.usefixtures("run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A conversation whose sandbox began with `host`; `inside` is what there is in the sandbox now."""

    path: str
    host: Path
    inside: PlayedFiles


class Workshop:
    def __init__(self, stage: Stage, machines: dict[str, Any], root: Path) -> None:
        self.stage = stage
        self._machines = machines
        self._root = root

    async def workspace(self, http: httpx.AsyncClient, **sandbox: Any) -> Workspace:
        host = self._root / "project"
        (host / "src").mkdir(parents=True)
        for directory in (host, host / "src"):
            directory.chmod(0o755)
        for name in ("kept.txt", "src/main.py", "old.txt"):
            (host / name).write_text(f"{name} of the host\n")
            (host / name).chmod(0o644)
        asked = {"name": "box", "settings": {"network": "off"}, **sandbox}
        made = await http.post(f"{API}/sandboxes", json=asked)
        assert made.status_code == 201, made.text
        inside: PlayedFiles = self._machines["box"].files
        inside.content |= {
            f"/workspace/{name}".encode(): (host / name).read_bytes()
            for name in ("kept.txt", "src/main.py", "old.txt")
        }
        return Workspace(path=await self.conversation(http), host=host, inside=inside)

    async def conversation(self, http: httpx.AsyncClient) -> str:
        """One that works in the sandbox `box`."""
        self.stage.play(Say(text="Done."))
        id = (await said(http, "Work"))["conversation"]
        session = await self.stage.scene.engine._sessions.find(id)
        session.change(
            place=Place(
                sandbox="box",
                name="box",
                image="base",
                image_digest="",
                isolation="software-vm",
                backend="played",
            )
        )
        await session.write()
        return f"{API}/conversations/{id}"


@pytest.fixture
def workshop(run: Run, tmp_path: Path) -> Iterator[Workshop]:
    backend, manager = played(tmp_path / "state")
    context = agent_staging(tmp_path, manager=manager)
    yield Workshop(run(context.__aenter__()), backend.machines, tmp_path)
    run(context.__aexit__(None, None, None))


def work(space: Workspace) -> None:
    """Changes, adds and removes inside."""
    files = space.inside.content
    files[b"/workspace/src/main.py"] = b"changed inside\n"
    files[b"/workspace/made/deep/new.txt"] = b"new inside\n"
    del files[b"/workspace/old.txt"]


def contents(answer: httpx.Response) -> dict[str, bytes]:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def tree(root: Path) -> dict[str, str]:
    return {str(one.relative_to(root)): one.read_text() for one in root.rglob("*") if one.is_file()}


async def test_named_changes_are_written_to_the_host_and_no_others(
    workshop: Workshop, tmp_path: Path
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        before = tree(space.host)
        paths = ["made/deep/new.txt", "old.txt"]
        answer = await http.post(f"{space.path}/apply", json={"paths": paths})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {
            "applied": ["old.txt", "made", "made/deep", "made/deep/new.txt"],
            "refused": [],
        }
        after = {**before, "made/deep/new.txt": "new inside\n"}
        del after["old.txt"]
        assert tree(space.host) == after
        # What was written is no change any more.
        left = contents(await http.get(f"{space.path}/changes.zip"))
        assert left == {"src/main.py": b"changed inside\n"}


async def test_what_the_host_changed_meanwhile_is_refused_and_stays(
    workshop: Workshop, tmp_path: Path
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        (space.host / "src" / "main.py").write_text("changed on the host\n")
        paths = ["src/main.py", "old.txt"]
        told = (await http.post(f"{space.path}/apply", json={"paths": paths})).json()
        assert told["applied"] == ["old.txt"]
        assert [one["path"] for one in told["refused"]] == ["src/main.py"]
        assert told["refused"][0]["why"]
        assert tree(space.host)["src/main.py"] == "changed on the host\n"


TRICKS = (
    "../outside.txt",
    "/etc/passwd",
    "/workspace/made/deep/new.txt",
    "made/../made/deep/new.txt",
    "./made/deep/new.txt",
    "made//deep/new.txt",
    "made/deep/new.txt\0",
    "MADE/deep/new.txt",
    "*",
    "kept.txt",
)


async def test_a_path_is_the_name_of_a_change_or_nothing(
    workshop: Workshop, tmp_path: Path
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        outside = tmp_path / "outside.txt"
        outside.write_text("mine\n")
        before = tree(space.host)
        for path in TRICKS:
            told = (await http.post(f"{space.path}/apply", json={"paths": [path]})).json()
            assert "made/deep/new.txt" not in told["applied"], path
            assert told["refused"] == [], path
            assert tree(space.host) == before, path
            assert (
                contents(await http.get(f"{space.path}/changes.zip", params={"path": path})) == {}
            ), path
        assert outside.read_text() == "mine\n"
        for paths in ([], [""], ["x" * 4097], "made"):
            refused = await http.post(f"{space.path}/apply", json={"paths": paths})
            assert refused.status_code == 422, paths


@pytest.mark.parametrize("name", [b"../outside.txt", b"a/../../outside.txt", b"/outside.txt"])
async def test_a_sandbox_that_sends_a_name_outside_changes_nothing(
    workshop: Workshop, tmp_path: Path, name: bytes
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        space.inside.content[b"/workspace/" + name] = b"from inside\n"
        before = tree(space.host)
        for answer in (
            await http.post(f"{space.path}/apply", json={"paths": [name.decode()]}),
            await http.get(f"{space.path}/changes.zip"),
        ):
            assert answer.json()["code"] == "path-refused", answer.text
        assert tree(space.host) == before
        assert not (tmp_path / "outside.txt").exists()


async def test_who_does_not_run_the_server_writes_nothing_on_it(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        before = tree(space.host)
        asked = {"paths": ["made/deep/new.txt"]}
        weaker = workshop.stage.server.token(Scope.RUN)
        bearer = {"Authorization": f"Bearer {weaker}"}
        refused = await http.post(f"{space.path}/apply", json=asked, headers=bearer)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        # The files themselves are theirs.
        zipped = await http.get(f"{space.path}/changes.zip", headers=bearer)
        assert contents(zipped)["made/deep/new.txt"] == b"new inside\n"

        admit = gate.Gate._admit

        async def as_other(self: Any, connection: Any, wire: Any) -> None:
            await admit(self, connection, wire)
            connection.state.caller = replace(connection.state.caller, user="other")

        monkeypatch.setattr(gate.Gate, "_admit", as_other)
        path = await workshop.conversation(http)
        refused = await http.post(f"{path}/apply", json=asked)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert tree(space.host) == before


async def test_the_zip_has_new_and_changed_files_or_the_named_ones(
    workshop: Workshop, tmp_path: Path
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        all = await http.get(f"{space.path}/changes.zip")
        assert contents(all) == {
            "src/main.py": b"changed inside\n",
            "made/deep/new.txt": b"new inside\n",
        }
        assert 'filename="changes.zip"' in all.headers["content-disposition"]
        one = await http.get(f"{space.path}/changes.zip", params={"path": "src/main.py"})
        assert contents(one) == {"src/main.py": b"changed inside\n"}


async def test_a_sandbox_that_began_with_no_directory_is_zipped_whole_and_applied_nowhere(
    workshop: Workshop,
) -> None:
    async with workshop.stage.server.client() as http:
        space = await workshop.workspace(http)
        work(space)
        assert set(contents(await http.get(f"{space.path}/changes.zip"))) == {
            "kept.txt",
            "src/main.py",
            "made/deep/new.txt",
        }
        refused = await http.post(f"{space.path}/apply", json={"paths": ["kept.txt"]})
        assert refused.json()["code"] == "bad-setting"


async def test_a_conversation_without_a_sandbox_has_no_changes(workshop: Workshop) -> None:
    workshop.stage.play(Say(text="Hello."))
    async with workshop.stage.server.client() as http:
        path = f"{API}/conversations/{(await said(http, 'Hi'))['conversation']}"
        for answer in (
            await http.post(f"{path}/apply", json={"paths": ["a"]}),
            await http.get(f"{path}/changes.zip"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")


async def test_the_python_client_applies_and_takes_them_home(
    workshop: Workshop, tmp_path: Path
) -> None:
    async with workshop.stage.server.client() as http, workshop.stage.client() as client:
        space = await workshop.workspace(http, host_directory=str(tmp_path / "project"))
        work(space)
        id = space.path.rpartition("/")[2]
        data = await client.conversations.changes_zip(id, ["src/main.py", "made/deep/new.txt"])
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert sorted(archive.namelist()) == ["made/deep/new.txt", "src/main.py"]
        (space.host / "old.txt").write_text("newer on the host\n")
        done = await client.conversations.apply(id, ["src/main.py", "old.txt"])
        assert [*done.applied] == ["src/main.py"]
        assert [one.path for one in done.refused] == ["old.txt"]
