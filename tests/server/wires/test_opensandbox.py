"""OpenSandbox's own Python client against our server. What it did is looked at with our command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.server.wires.conftest import ClientFailed, Driver, Served, python_client, until

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Driver]:
    variables = {
        "OPEN_SANDBOX_DOMAIN": f"{served.url}/opensandbox",
        "OPEN_SANDBOX_API_KEY": served.token,
    }
    with python_client("opensandbox_client.py", "opensandbox", variables) as driver:
        yield driver


@pytest.fixture(scope="module")
def box(client: Driver) -> str:
    """One running sandbox for all tests that do not change what it is."""
    made: str = client(
        "create", {"env": {"WORD": "a b"}, "timeout_s": 3600, "policy": ["example.org"]}
    )
    return made


def inspected(served: Served, name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(served.crucible.ok("inspect", name, "--json"))
    return told


def test_a_sandbox_is_as_asked_for(client: Driver, box: str, served: Served) -> None:
    facts = inspected(served, box)
    assert facts["state"] == "running"
    assert facts["spec"]["ttl_s"] == 3600
    assert facts["spec"]["memory_mib"] == 512
    assert (facts["spec"]["network"], facts["spec"]["allow"]) == ("allowlist", ["example.org"])
    assert client("state", box)["state"] == "Running"
    assert client("healthy", box) is True
    assert client("metrics", box)["cpus"] == 1.0
    told = client("manage")
    assert box in told["ids"]
    assert told["total"] == len(told["ids"])


def test_a_command_gets_its_options_and_tells_its_status(client: Driver, box: str) -> None:
    script = 'echo "$WORD $MORE"; pwd; id -u; echo aside >&2; exit 7'
    options = {"working_directory": "/usr", "envs": {"MORE": "c"}, "uid": 0}
    told = client("run", box, script, options)
    assert told["text"] == "a b c\n/usr\n0"
    assert (told["stderr"], told["exit_code"]) == (["aside\n"], 7)
    told = client("run", box, ["printf", "%s|", "a b", "$WORD"], {})
    assert (told["text"], told["exit_code"]) == ("a b|$WORD|", 0)
    assert client("run", box, "sleep 100", {"timeout_s": 0.2})["error"] == "CommandTimedOut"


def test_lines_are_whole_however_they_come(client: Driver, box: str) -> None:
    script = "for i in $(seq 3000); do printf 'line '; printf '%s\\n' $i; done; printf 'no end'"
    lines = client("run", box, script, {})["text"].split("\n")
    assert lines == [*(f"line {number}" for number in range(1, 3001)), "no end"]


def test_output_comes_while_the_command_runs(client: Driver, box: str) -> None:
    script = "rm -f /tmp/go; echo begun; until test -e /tmp/go; do sleep 0.05; done; echo done"
    assert client("streamed", box, script) == ["begun\n", "done\n"]


def test_a_background_command_is_found_and_ended(client: Driver, box: str, served: Served) -> None:
    script = "echo out; echo err >&2; echo $$ > /tmp/pid; exec sleep 1000"
    started = client("run", box, script, {"background": True})["id"]
    waiting = "until test -s /tmp/pid; do sleep 0.05; done; cat /tmp/pid"
    pid = served.crucible.ok("exec", box, "sh", "-c", waiting).strip()
    assert client("status", box, started) == {"running": True, "exit_code": None}
    # What it said is on its way to the log, as what the other command said was to us.
    until(lambda: len(client("logs", box, started, None)["content"].split()) == 2)
    told = client("logs", box, started, None)
    assert sorted(told["content"].split()) == ["err", "out"]
    assert client("logs", box, started, told["cursor"]) == {"content": "", "cursor": told["cursor"]}
    client("interrupt", box, started)
    assert client("status", box, started)["running"] is False
    assert served.crucible("exec", box, "test", "-e", f"/proc/{pid}").returncode == 1


def test_files_are_written_read_listed_moved_and_removed(
    client: Driver, box: str, served: Served
) -> None:
    client("write", box, "/srv/deep/a.txt", "grüße", {"mode": 640, "owner": "root"})
    assert served.crucible.ok("exec", "--user", "root", box, "cat", "/srv/deep/a.txt") == "grüße"
    assert client("info", box, "/srv/deep/a.txt") == {"size": 7, "mode": 640, "type": "file"}
    assert client("read", box, "/srv/deep/a.txt", {}) == "grüße"
    assert client("read", box, "/srv/deep/a.txt", {"range_header": "bytes=0-1"}) == "gr"
    client("write_many", box, {"/srv/deep/b.py": "1", "/srv/deep/c.py": "2"})
    client("mkdir", box, "/srv/deep/er")
    listed = client("listed", box, "/srv/deep")
    assert listed == [f"/srv/deep/{name}" for name in ("a.txt", "b.py", "c.py", "er")]
    assert client("search", box, "/srv/deep", "*.py") == ["/srv/deep/b.py", "/srv/deep/c.py"]
    client("move", box, "/srv/deep/b.py", "/srv/deep/er/moved")
    assert served.crucible.ok("exec", "--user", "root", box, "cat", "/srv/deep/er/moved") == "1"
    client("delete", box, "/srv/deep/c.py")
    client("rmdir", box, "/srv/deep/er")
    assert client("listed", box, "/srv/deep") == ["/srv/deep/a.txt"]
    with pytest.raises(ClientFailed, match="404"):
        client("read", box, "/srv/deep/c.py", {})


def test_an_upload_that_is_no_upload_is_refused(served: Served, box: str) -> None:
    address = f"{served.url}/opensandbox/sandboxes/{box}/execd/files/upload"
    headers = {"OPEN-SANDBOX-API-KEY": served.token}
    hostile: list[list[tuple[str, bytes]]] = [
        [("file", b"without a word")],
        [("metadata", b'{"path": "/tmp/x"}')],
        [("metadata", b'{"path": "../etc/x"}'), ("file", b"x")],
        [("metadata", b'{"path": "/tmp/\\u0000"}'), ("file", b"x")],
        [("metadata", b'{"path": "/tmp/x", "mode": 999}'), ("file", b"x")],
        [("metadata", b"{"), ("file", b"x")],
    ]
    for parts in hostile:
        files = [(name, (name, data)) for name, data in parts]
        answer = httpx.post(address, headers=headers, files=files, timeout=120)
        assert answer.status_code == 400, (parts, answer.text)
        assert answer.json()["message"]
    assert served.crucible("exec", box, "test", "-e", "/tmp/x").returncode == 1


def test_it_is_connected_to_through_the_server_too(client: Driver, box: str) -> None:
    client("connect", box, {"use_server_proxy": True})
    client("write", box, "/tmp/proxied", "through", {})
    assert client("run", box, "cat /tmp/proxied", {})["text"] == "through"


def test_its_life_is_prolonged_held_still_and_ended(client: Driver, served: Served) -> None:
    made = client("create", {})
    assert client("renew", made, 7200) in client("state", made)["expires_at"]
    assert 7000 < inspected(served, made)["spec"]["ttl_s"] < 7300
    with pytest.raises(ClientFailed, match="in the past"):
        client("renew", made, -60)
    client("pause", made)
    assert inspected(served, made)["state"] == "paused"
    client("resume", made)
    assert client("run", made, "echo again", {})["text"] == "again"
    client("kill", made)
    assert made not in served.crucible.ok("list", "--quiet").split()
    with pytest.raises(ClientFailed, match="There is no sandbox"):
        client("state", made)


def test_the_client_without_asyncio_works_too(client: Driver, served: Served) -> None:
    before = set(served.crucible.ok("list", "--quiet").split())
    assert client("blocking") == "sync"
    assert set(served.crucible.ok("list", "--quiet").split()) == before


def test_what_is_not_served_is_refused_by_name(client: Driver, box: str) -> None:
    calls: list[tuple[Any, ...]] = [
        ("session", box),
        ("endpoint", box, 8080),
        ("create", {"metadata": {"a": "b"}}),
        ("create", {"entrypoint": ["sleep", "1"]}),
        ("create", {"resource": {"gpu": "1"}}),
    ]
    for words in calls:
        with pytest.raises(ClientFailed, match=r"not|no |cannot"):
            client(*words)


def test_a_wrong_key_is_refused(client: Driver, box: str) -> None:
    with pytest.raises(ClientFailed, match="unknown, revoked or expired"):
        client("wrong_key", box)
