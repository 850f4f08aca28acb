"""`diff` and `apply` against a scripted owner, with a real directory on the host."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted_service import Peer, ScriptedService

from crucible.cli.main import main
from crucible.client.protocol import SOCKET_NAME
from crucible.sandbox.records import SandboxRecord, open_records, sandbox_directory
from crucible.sandbox.seeding import BASELINE_NAME
from crucible.sandbox.spec import SandboxSpec

OLD, NEW = b"one\n", b"one\ntwo\n"


class Scene:
    """A host directory, a record of a sandbox made from it, and the files the sandbox has."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.project.mkdir()
        (self.project / "a.txt").write_bytes(OLD)
        records = open_records(self.home)
        self.record = records.add(
            SandboxRecord(
                id="id-box",
                name="box",
                state="running",
                spec=SandboxSpec(),
                directory=sandbox_directory(self.home, "id-box"),
                created_at=time.time(),
                host_directory=str(self.project),
            )
        )
        records.close()
        self.record.directory.mkdir(parents=True)
        self.baseline = [entry("a.txt", OLD)]
        self.files = {"a.txt": NEW, "evil\x1b[2J": b"x"}

    def serve(self, *, reads: int) -> ScriptedService:
        scripts = [self._give_baseline, self._give_tree, *[self._give_file] * reads]
        return ScriptedService(self.home / SOCKET_NAME, *scripts)

    def _give_baseline(self, peer: Peer) -> None:
        assert peer.request() == {"verb": "baseline", "name": "box"}
        peer.output(lines(self.baseline))
        peer.say(ok={"host_directory": str(self.project), "path": "/workspace"})

    def _give_tree(self, peer: Peer) -> None:
        wanted = {"verb": "tree", "name": "box", "path": "/workspace", "hashed": True}
        assert peer.request() == wanted
        peer.output(lines([entry(name, data) for name, data in self.files.items()]))
        peer.say(ok={"count": len(self.files)})

    def _give_file(self, peer: Peer) -> None:
        path = peer.request()["path"]
        peer.output(self.files[path.removeprefix("/workspace/")])
        peer.say(ok={})


def entry(name: str, data: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "type": "file",
        "mode": 0o644,
        "size": len(data),
        "mtime_ns": 0,
        "uid": 1000,
        "gid": 1000,
        "target": "",
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def lines(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in entries)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    found = Scene(tmp_path)
    monkeypatch.setenv("CRUCIBLE_HOME", str(found.home))
    return found


def test_a_diff_is_a_patch(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    service = scene.serve(reads=2)
    assert main(["diff", "box"]) == 0
    service.finish()
    shown = capsys.readouterr().out
    assert "--- a/a.txt\n+++ b/a.txt\n" in shown
    assert "+two\n" in shown


@pytest.mark.parametrize(
    "words, check",
    [
        (["--names"], lambda text: text == "modified  a.txt\nadded     evil\\x1b[2J\n"),
        (
            ["--json"],
            lambda text: (
                json.loads(text)
                == [
                    {"path": "a.txt", "change": "modified"},
                    {"path": "evil\x1b[2J", "change": "added"},
                ]
            ),
        ),
    ],
)
def test_changes_can_be_listed_without_contents(
    scene: Scene,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    check: Callable[[str], bool],
) -> None:
    service = scene.serve(reads=0)
    assert main(["diff", *words, "box"]) == 0
    service.finish()
    assert check(capsys.readouterr().out)


def test_what_was_applied_is_on_the_host_and_not_shown_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    service = scene.serve(reads=4)
    assert main(["apply", "--yes", "box"]) == 0
    service.finish()
    assert (scene.project / "a.txt").read_bytes() == NEW
    assert "+two\n" in capsys.readouterr().out
    kept = (scene.record.directory / BASELINE_NAME).read_bytes().splitlines()
    assert {json.loads(line)["name"] for line in kept} == set(scene.files)


def test_what_the_host_changed_too_is_left_alone(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    (scene.project / "a.txt").write_bytes(b"mine\n")
    scene.files = {"a.txt": NEW}
    service = scene.serve(reads=0)
    assert main(["apply", "--yes", "box"]) == 126
    service.finish()
    assert (scene.project / "a.txt").read_bytes() == b"mine\n"
    assert "warning: a.txt was not written" in capsys.readouterr().err


def test_nothing_changed_is_nothing_written(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.files = {"a.txt": OLD}
    service = scene.serve(reads=0)
    assert main(["apply", "box"]) == 0
    service.finish()
    assert capsys.readouterr().out == ""
    assert list(scene.record.directory.iterdir()) == []
