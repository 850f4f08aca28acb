"""What each command asks of the owner, and what it makes of the answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted_service import Peer, ScriptedService

from crucible.cli.commands.run import _entrypoint
from crucible.cli.main import main
from crucible.client.protocol import ERRORS, OUTPUT, SOCKET_NAME
from crucible.errors import EXIT_REFUSED

Told = list[dict[str, Any]]
Serve = Callable[..., Told]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("CRUCIBLE_HOME", str(path))
    return path


@pytest.fixture
def serve(home: Path, request: pytest.FixtureRequest) -> Serve:
    """Begins an owner that gives these answers, one for each connection, and tells what it was asked."""

    def begin(*answers: dict[str, Any]) -> Told:
        told: Told = []

        def script_for(answer: dict[str, Any]) -> Callable[[Peer], None]:
            def script(peer: Peer) -> None:
                told.append(peer.request())
                peer.say(accepted={})
                peer.say(**answer)

            return script

        service = ScriptedService(home / SOCKET_NAME, *map(script_for, answers))
        request.addfinalizer(service.finish)
        return told

    return begin


@pytest.mark.parametrize(
    "words, asked",
    [
        (["start", "box"], {"verb": "start", "name": "box"}),
        (["stop", "box"], {"verb": "stop", "name": "box", "grace_s": 10.0}),
        (["stop", "--grace", "1m", "box"], {"verb": "stop", "name": "box", "grace_s": 60.0}),
        (["stop", "--grace=0", "box"], {"verb": "stop", "name": "box", "grace_s": 0.0}),
        (["rm", "box"], {"verb": "remove", "name": "box", "force": False}),
        (["remove", "-f", "box"], {"verb": "remove", "name": "box", "force": True}),
        (["pause", "box"], {"verb": "pause", "name": "box"}),
        (["resume", "box"], {"verb": "resume", "name": "box"}),
        (["snapshot", "box", "tag"], {"verb": "snapshot", "name": "box", "tag": "tag"}),
        (["snapshot", "create", "list", "tag"], {"verb": "snapshot", "name": "list", "tag": "tag"}),
        (["snapshot", "remove", "tag"], {"verb": "snapshot_remove", "tag": "tag"}),
        (["snapshot", "restore", "tag", "box2"], {"verb": "restore", "tag": "tag", "name": "box2"}),
        (
            ["snapshot", "export", "tag", "/x/f"],
            {"verb": "snapshot_export", "tag": "tag", "path": "/x/f"},
        ),
        (
            ["snapshot", "import", "/x/f", "tag"],
            {"verb": "snapshot_import", "path": "/x/f", "tag": "tag"},
        ),
        (["logs", "box"], {"verb": "logs", "name": "box", "console": False}),
        (["logs", "--console", "box"], {"verb": "logs", "name": "box", "console": True}),
        (["prune", "--yes"], {"verb": "prune"}),
    ],
)
def test_a_command_is_one_request(serve: Serve, words: list[str], asked: dict[str, Any]) -> None:
    told = serve({"ok": {}})
    assert main(words) == 0
    assert told == [asked]


def test_paths_of_exports_are_absolute(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = serve({"ok": {}})
    assert main(["snapshot", "export", "tag", "file"]) == 0
    assert told[0]["path"] == str(tmp_path / "file")


def test_create_sends_the_whole_specification(serve: Serve, tmp_path: Path) -> None:
    told = serve({"ok": {"sandbox": {}}})
    words = ["create", "box", "--start", "--dir", str(tmp_path), "--memory", "300M", "--cpus", "2"]
    words += ["--disk", "2G", "-e", "A=1", "-e", "B=x=y", "--workdir", "/srv", "--user", "root"]
    words += [
        "--image",
        "base",
        "--backend",
        "qemu-tcg",
        "--min-isolation",
        "software-vm",
        "--no-network",
    ]
    assert main(words) == 0
    asked = {"image", "memory_mib", "cpus", "disk_mib", "backend", "min_isolation", "environment"}
    assert set(told[0].pop("settled")) == asked | {"workdir", "user", "network"}
    assert told == [
        {
            "verb": "create",
            "name": "box",
            "accept_labels": False,
            "start": True,
            "upload": False,
            "host_directory": str(tmp_path),
            "fallback_image": None,
            "secrets": [],
            "spec": {
                "image": "base",
                "memory_mib": 512,
                "cpus": 2,
                "disk_mib": 2048,
                "backend": "qemu-tcg",
                "min_isolation": "software-vm",
                "environment": {"A": "1", "B": "x=y"},
                "workdir": "/srv",
                "user": "root",
                "network": "off",
                "profile": "moderate",
                "read_only": False,
                "drop_capabilities": False,
            },
        }
    ]


@pytest.mark.parametrize("off", [["--no-network"], ["--network", "off"]])
def test_what_is_to_reach_no_network_can_be_allowed_none(
    off: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["create", "box", *off, "--allow", "example.com"]) == EXIT_REFUSED
    assert "bad-usage" in capsys.readouterr().err


def test_an_error_of_the_owner_is_shown_and_its_status_ours(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(
        {"error": {"code": "wrong-state", "message": "It is\tso", "hint": "Do", "exit_status": 126}}
    )
    assert main(["start", "box"]) == 126
    assert capsys.readouterr().err == "error: It is\\tso (wrong-state)\nhint: Do\n"


def test_one_failure_does_not_stop_the_others(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = {"error": {"code": "c", "message": "m", "hint": "", "exit_status": 125}}
    told = serve({"ok": {}}, failure, {"ok": {}})
    assert main(["rm", "a", "b", "c", "a"]) == 125
    assert [request["name"] for request in told] == ["a", "b", "c"]
    assert capsys.readouterr().err == "error: m (c)\n"


def test_ports_are_lines_or_json(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    published = [{"address": "127.0.0.1", "host": 9000, "guest": 80}]
    told = {"ports": [80, 8080], "published": published}
    serve({"ok": told}, {"ok": told})
    assert main(["ports", "box"]) == 0
    assert capsys.readouterr().out == "80\t127.0.0.1:9000\n8080\n"
    assert main(["ports", "--json", "box"]) == 0
    assert json.loads(capsys.readouterr().out) == told


def test_stats_are_a_table_or_json(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    figures = {
        "uptime_s": 90.0, "cpu_s": 1.25, "memory_total": 1 << 29, "memory_available": 1 << 28,
        "memory_user": 5, "memory_peak": 1 << 28, "disk_total": 1 << 33, "disk_free": 1 << 32,
        "inodes_free": 7, "processes": 3, "oom_kills": 0,
    }  # fmt: skip
    serve({"ok": figures}, {"ok": figures})
    assert main(["stats", "box"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[1].split("  ")[0] == "box"
    assert "256 MiB of 512 MiB" in rows[1]
    assert main(["stats", "--json", "box"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "box", **figures}]


def test_forks_take_the_first_free_names(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    told = serve({"ok": {"sandboxes": [{"name": "box-1"}, {"name": "box-2"}]}})
    assert main(["fork", "box", "--count", "2"]) == 0
    assert told == [{"verb": "fork", "name": "box", "names": ["box-1", "box-2"]}]
    assert capsys.readouterr().out == "box-1\nbox-2\n"


def test_a_detached_command_prints_its_number(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    told = serve({"ok": {"stream": 5, "pid": 9}})
    assert main(["exec", "--detach", "box", "sleep", "9"]) == 0
    assert capsys.readouterr().out == "5\n"
    assert told[0]["detach"] is True
    assert told[0]["command"]["argv"] == ["sleep", "9"]
    assert told[0]["command"]["wants_input"] is False


def test_logs_keep_bytes_and_descriptors(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.output(b"out\xff\x00")
        peer.output(b"err\x1b", ERRORS)
        peer.say(ok={})

    service = ScriptedService(home / SOCKET_NAME, script)
    assert main(["logs", "box"]) == 0
    service.finish()
    assert capfdbinary.readouterr() == (b"out\xff\x00", b"err\x1b")


def test_arguments_that_are_no_text_reach_the_service(serve: Serve) -> None:
    told = serve({"ok": {"stream": 1}})
    assert main(["exec", "-d", "-e", "A=\udcff", "box", "echo", os.fsdecode(b"\xff\xfe")]) == 0
    assert told[0]["command"]["argv"] == ["echo", "\udcff\udcfe"]
    assert told[0]["command"]["environment"] == {"A": "\udcff"}


def test_a_file_is_copied_in_under_the_name_it_shall_have(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    archives: list[bytes] = []

    def missing(peer: Peer) -> None:
        assert peer.request() == {"verb": "stat", "name": "box", "path": "/tmp/x", "follow": True}
        peer.say(error={"code": "guest-refused", "message": "", "hint": "", "exit_status": 125})

    def take(peer: Peer) -> None:
        assert peer.request() == {"verb": "tar_in", "name": "box", "path": "/tmp", "owner": ""}
        archives.append(peer.input())
        peer.say(ok={"count": 1})

    service = ScriptedService(home / SOCKET_NAME, missing, take)
    assert main(["cp", str(tmp_path / "file"), "box:/tmp/x"]) == 0
    service.finish()
    assert _members(archives[0]) == {"x": b"content"}


def test_a_file_is_copied_out_under_the_name_it_shall_have(home: Path, tmp_path: Path) -> None:
    archive = _archive({"x": b"content"})

    def found(peer: Peer) -> None:
        assert peer.request() == {"verb": "stat", "name": "box", "path": "/tmp/x", "follow": False}
        peer.say(ok={"entry": {}})

    def give(peer: Peer) -> None:
        assert peer.request() == {"verb": "tar_out", "name": "box", "path": "/tmp", "names": ["x"]}
        peer.output(archive, OUTPUT)
        peer.say(ok={})

    service = ScriptedService(home / SOCKET_NAME, found, give)
    assert main(["cp", "box:/tmp/x", str(tmp_path / "y")]) == 0
    service.finish()
    assert (tmp_path / "y").read_bytes() == b"content"


def _archive(files: dict[str, bytes]) -> bytes:
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _members(data: bytes) -> dict[str, bytes]:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {
            member.name: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member)) is not None
        }


@pytest.mark.parametrize(
    "given, is_guessed, entrypoint",
    [(None, False, None), (None, True, []), ("", False, []), ("sh", True, ["sh"])],
)
def test_an_image_that_was_guessed_from_the_command_runs_that_very_command(
    given: str | None, is_guessed: bool, entrypoint: list[str] | None
) -> None:
    assert _entrypoint(given, is_guessed=is_guessed) == entrypoint
