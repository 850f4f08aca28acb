"""`microvmctl` keeps its contract: JSON alone on standard output, one last word, a status that means one thing."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.scripted_service import Peer, Script, ScriptedService

from crucible.cli.grammar import parse
from crucible.cli.provider import lines
from crucible.cli.provider.main import COMMANDS
from crucible.cli.provider.requests import LARGEST_REQUEST, parse_request
from crucible.client import protocol
from crucible.client.protocol import SOCKET_NAME
from crucible.errors import BadSetting, CrucibleError

TIMEOUT_S = 120.0


class Said:
    """What one call wrote and ended with."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.status = done.returncode
        self.errors = done.stderr
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1]

    def bytes_of(self, event: str) -> bytes:
        return b"".join(
            base64.b64decode(line["data"]) for line in self.lines if line.get("event") == event
        )


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mvm-") as name:
        yield Path(name)


def microvmctl(home: Path, *words: str, input: bytes = b"") -> Said:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CRUCIBLE_")}
    return Said(
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from crucible.cli.provider.main import main; exit(main())",
                *words,
            ],
            input=input,
            capture_output=True,
            timeout=TIMEOUT_S,
            env={**kept, "CRUCIBLE_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    )


@contextlib.contextmanager
def owner(home: Path, *scripts: Script) -> Iterator[None]:
    service = ScriptedService(home / SOCKET_NAME, *scripts)
    try:
        yield
    finally:
        service.finish()


def test_a_commands_output_comes_as_lines_and_its_failure_is_a_result(home: Path) -> None:
    asked = []

    def play(peer: Peer) -> None:
        asked.append(peer.request())
        peer.say(accepted={})
        peer.start()
        peer.output(b"\xff\x00out")
        peer.output(b"err", protocol.ERRORS)
        peer.taken(protocol.OUTPUT, 5)
        peer.say(ok={"exit": {"status": 3, "signal": None}, "limit": None})

    with owner(home, play):
        said = microvmctl(home, "exec", "box", "-e", "A=b c", "--", "sh", "-c", "exit 3; $(x) '\n")
    assert said.status == 0
    assert (said.bytes_of("output"), said.bytes_of("errors")) == (b"\xff\x00out", b"err")
    assert said.lines[0] == {"event": "started", "stream": 3, "pid": 7}
    assert said.last["ok"] is True
    assert said.last["exit"]["status"] == 3
    assert asked[0]["command"]["argv"] == ["sh", "-c", "exit 3; $(x) '\n"]
    assert asked[0]["command"]["environment"] == {"A": "b c"}


def test_a_request_on_standard_input_needs_no_quoting_and_the_rest_is_the_commands(
    home: Path,
) -> None:
    words = ["cat", "a b", "c\nd", "'\"$(touch x)`y`", "", "--request", "é"]
    asked = []

    def play(peer: Peer) -> None:
        asked.append(peer.request())
        peer.start()
        asked.append({"input": peer.input()})
        peer.say(ok={"exit": {"status": 0}})

    request = {"name": "box", "argv": words, "environment": {"K": "v\n'"}, "input": True}
    with owner(home, play):
        said = microvmctl(
            home, "exec", "--request", input=json.dumps(request).encode() + b"\nrest\n\x00of it"
        )
    assert said.status == 0, said.lines
    assert asked[0]["command"]["argv"] == words
    assert asked[0]["command"]["environment"] == {"K": "v\n'"}
    assert asked[1]["input"] == b"rest\n\x00of it"


def test_a_command_whose_holder_died_has_no_exit(home: Path) -> None:
    def play(peer: Peer) -> None:
        peer.request()
        peer.start()
        peer.output(b"half")
        peer.taken(protocol.OUTPUT, 4)

    with owner(home, play):
        said = microvmctl(home, "exec", "box", "sleep", "9")
    assert said.status == lines.SANDBOX_FAILED
    assert said.last["ok"] is False
    assert said.last["error"]["code"] == "owner-unreachable"
    assert not [line for line in said.lines if line.get("event") == "exit"]


@pytest.mark.parametrize(
    "code, exit_status, status",
    [
        ("sandbox-missing", 126, lines.MISSING),
        ("wrong-state", 126, lines.WRONG_STATE),
        ("name-taken", 126, lines.WRONG_STATE),
        ("prerequisite-missing", 125, lines.NOT_READY),
        ("overloaded", 125, lines.BUSY),
        ("guest-gone", 125, lines.SANDBOX_FAILED),
        ("guest-refused", 125, lines.BAD_REQUEST),
        ("bad-setting", 126, lines.BAD_REQUEST),
        ("something-new", 126, lines.BAD_REQUEST),
        ("something-else", 125, lines.FAILED),
    ],
)
def test_every_error_has_its_status(code: str, exit_status: int, status: int) -> None:
    error = CrucibleError("why")
    error.code, error.exit_status = code, exit_status
    assert lines.status_of(error) == status


def test_an_error_is_told_with_code_and_hint(home: Path) -> None:
    def play(peer: Peer) -> None:
        assert peer.request() == {"verb": "remove", "name": "box", "force": True}
        peer.say(
            error={"code": "sandbox-missing", "message": "no", "hint": "do", "exit_status": 126}
        )

    with owner(home, play):
        said = microvmctl(home, "destroy", "box")
    assert said.status == lines.MISSING
    assert said.lines == [
        {
            "contract": 1,
            "ok": False,
            "error": {"code": "sandbox-missing", "message": "no", "hint": "do"},
        }
    ]


def test_a_file_is_written_and_read_byte_for_byte(home: Path) -> None:
    data = bytes(range(256)) * 1000
    asked = []

    def take(peer: Peer) -> None:
        asked.append(peer.request())
        got = b""
        while True:
            kind, payload = peer.frame()
            if kind == protocol.END:
                break
            got += payload[1:]
            peer.send(protocol.taken_frame(protocol.INPUT, len(payload) - 1))
        assert got == data
        peer.say(ok={"count": len(got)})

    def give(peer: Peer) -> None:
        asked.append(peer.request())
        peer.output(data)
        peer.taken(protocol.OUTPUT, len(data))
        peer.say(ok={})

    with owner(home, take, give):
        written = microvmctl(home, "write", "box", "/a b/'x", "--mode", "600", input=data)
        found = microvmctl(home, "read", "box", "/a b/'x")
    assert (written.status, written.last["size"]) == (0, len(data))
    assert (asked[0]["path"], asked[0]["mode"]) == ("/a b/'x", 0o600)
    assert (found.status, found.bytes_of("data"), found.last["size"]) == (0, data, len(data))


def test_created_sandboxes_are_told_and_named(home: Path) -> None:
    def play(peer: Peer) -> None:
        request = peer.request()
        assert request["spec"] == {"image": "base", "memory_mib": 512, "cpus": 2}
        assert request["start"] is True
        record = {"name": request["name"], "state": "running", "spec": {"image": "base"}, "pid": 9}
        peer.say(ok={"sandbox": record})

    with owner(home, play):
        said = microvmctl(home, "create", "--image", "base", "--memory", "512M", "--cpus", "2")
    assert said.status == 0
    assert said.last["sandbox"]["name"].startswith("mvm-")
    assert "pid" not in said.last["sandbox"]


@pytest.mark.parametrize(
    "words, input",
    [
        ((), b""),
        (("exec", "--request"), b"not json\n"),
        (("exec", "--request"), b"[1]\n"),
        (("exec", "--request"), b'{"name": "box", "shell": true}\n'),
        (("exec", "--request"), b'{"argv": ["true"]}\n'),
        (("exec", "--request", "box"), b"{}\n"),
        (("exec", "--request"), b"{" + b" " * (LARGEST_REQUEST + 1)),
        (("exec", "--request"), b"[" * 100_000 + b"\n"),
        (("write", "box", "/x", "--mode", "999"), b""),
        (("destroy", "-x"), b""),
        (("destroy", "../x"), b""),
        (("destroy",), b""),
        (("nosuch",), b""),
        (("create", "box", "--cpus", "many"), b""),
        (("connect",), b""),
        (("connect", "--nonce", "zz"), b""),
    ],
)
def test_what_means_nothing_is_refused_in_json(
    home: Path, words: tuple[str, ...], input: bytes
) -> None:
    said = microvmctl(home, *words, input=input)
    if not words:
        assert (said.status, said.lines) == (0, [])
        assert b"microvmctl exec" in said.errors
        return
    assert said.status == lines.BAD_REQUEST
    assert said.last["ok"] is False
    assert said.last["error"]["code"]


def test_the_version_and_an_empty_list_are_json(home: Path) -> None:
    assert microvmctl(home, "version").last["ok"] is True
    assert microvmctl(home, "list").last == {"contract": 1, "ok": True, "sandboxes": []}


@given(st.binary(max_size=300))
def test_no_request_does_more_than_be_refused(line: bytes) -> None:
    with contextlib.suppress(BadSetting):
        assert set(parse_request(line, ("name",))) <= {"name"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_no_json_does_more_than_be_refused(value: object) -> None:
    with contextlib.suppress(BadSetting):
        assert set(parse_request(json.dumps(value).encode(), ("name", "argv"))) <= {"name", "argv"}


def test_every_verb_is_in_the_contract() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/microvmctl.md").read_text()
    for command in COMMANDS:
        assert f"microvmctl {command.name}" in page, command.name
        for option in command.options:
            assert f"--{option.long}" in page, (command.name, option.long)
        parse(command, ["--nonce", "0" * 16] if command.name == "connect" else [])
    for codes in lines._STATUSES.values():
        for code in codes:
            assert f"`{code}`" in page, code
