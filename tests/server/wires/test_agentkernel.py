"""agentkernel's own npm client against our server. What it did is looked at with our command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.wires.conftest import ClientFailed, Driver, Served, node_client, until

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Driver]:
    variables = {"AGENTKERNEL_BASE_URL": served.url, "AGENTKERNEL_API_KEY": served.token}
    with node_client("agentkernel.cjs", "agentkernel", variables) as driver:
        yield driver


@pytest.fixture(scope="module")
def box(client: Driver) -> str:
    """One running sandbox for all tests that do not change what it is."""
    made = client("createSandbox", "box", {"profile": "restrictive", "memory_mb": 500})
    assert (made["name"], made["status"], made["memory_mb"]) == ("box", "running", 512)
    return "box"


@pytest.fixture(scope="module")
def open_box(client: Driver) -> str:
    """One that can be written to."""
    client("createSandbox", "open", {"image": "base"})
    return "open"


def inspected(served: Served, name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(served.crucible.ok("inspect", name, "--json"))
    return told


def test_health_is_asked_and_told(client: Driver) -> None:
    assert client("health") == "ok"


def test_a_wrong_key_is_an_error_of_its_own(client: Driver) -> None:
    with pytest.raises(ClientFailed, match="unknown, revoked or expired") as failed:
        client("wrongKey")
    assert failed.value.name == "AuthError"


def test_a_command_is_run_and_nothing_is_left(client: Driver, served: Served) -> None:
    told = client("run", ["sh", "-c", "echo hello; echo aside >&2"])
    assert (told["output"], told["stderr"], told["exit_code"]) == ("hello\n", "aside\n", 0)
    assert not told["truncated"]
    assert "run-" not in served.crucible.ok("list", "--quiet")


def test_a_command_that_fails_is_no_success(client: Driver) -> None:
    with pytest.raises(ClientFailed, match="ended with status 7: broken") as failed:
        client("run", ["sh", "-c", "echo broken >&2; exit 7"], {"profile": "restrictive"})
    assert failed.value.name == "ServerError"


def test_output_is_streamed_with_how_it_ended(client: Driver) -> None:
    events = client("runStream", ["sh", "-c", "echo grüße; echo aside >&2; exit 3"])
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("started", "done")
    said = [event["data"] for event in events if event["type"] == "output"]
    assert "".join(data["data"] for data in said if data["stream"] == "stdout") == "grüße\n"
    assert "".join(data["data"] for data in said if data["stream"] == "stderr") == "aside\n"
    assert events[-1]["data"] == {"exit_code": 3, "success": False}


def test_a_stream_that_cannot_begin_ends_with_an_error(client: Driver) -> None:
    events = client("runStream", ["true"], {"image": "no-such-image"})
    assert events[-1]["type"] == "error"
    assert "no-such-image" in events[-1]["data"]["message"]


def test_a_batch_is_answered_in_its_order(client: Driver) -> None:
    words = ("one", "two", "three")
    commands = [{"command": ["echo", word]} for word in words] + [{"command": ["false"]}]
    results = client("batchRun", commands)["results"]
    assert [result["output"] for result in results] == ["one\n", "two\n", "three\n", None]
    assert [result["error"] for result in results[:3]] == [None] * 3
    assert "status 1" in results[3]["error"]


def test_a_sandbox_is_as_asked_for(client: Driver, box: str, served: Served) -> None:
    facts = inspected(served, box)
    assert facts["state"] == "running"
    assert facts["spec"]["profile"] == "restrictive"
    assert facts["spec"]["network"] == "off"
    assert facts["spec"]["memory_mib"] == 512
    told = client("getSandbox", box)
    assert told["uuid"] == facts["id"]
    assert client("getSandboxByUuid", facts["id"]) == told
    assert told in client("listSandboxes")


def test_a_session_removes_its_sandbox(client: Driver, served: Served) -> None:
    client("sandbox", "session-box")
    assert client("session", "session-box", "run", ["echo", "in"])["output"] == "in\n"
    assert client("session", "session-box", "writeFiles", {"/srv/a": "b"}) == {"written": 1}
    assert served.crucible.ok("exec", "session-box", "cat", "/srv/a") == "b"
    client("session", "session-box", "remove")
    assert "session-box" not in served.crucible.ok("list", "--quiet").split()
    with pytest.raises(ClientFailed) as failed:
        client("getSandbox", "session-box")
    assert failed.value.name == "NotFoundError"


def test_a_command_in_a_sandbox_gets_its_options(client: Driver, open_box: str) -> None:
    options = {"env": ["WORD=a b"], "workdir": "/usr", "sudo": True}
    told = client("execInSandbox", open_box, ["sh", "-c", 'echo "$WORD"; pwd; id -u'], options)
    assert told["output"] == "a b\n/usr\n0\n"


def test_files_are_written_read_and_removed(client: Driver, open_box: str, served: Served) -> None:
    exec_ = ("exec", open_box)
    assert "5 bytes" in client("writeFile", open_box, "srv/deep/er.txt", "hallo")
    assert served.crucible.ok(*exec_, "cat", "/srv/deep/er.txt") == "hallo"
    data = base64.b64encode(b"\0\xff\x80").decode()
    client("writeFile", open_box, "/srv/bytes", data, {"encoding": "base64"})
    told = client("readFile", open_box, "/srv/bytes")
    assert told == {"content": data, "encoding": "base64", "size": 3}
    assert client("writeFiles", open_box, {"/srv/one": "1", "srv/two": "2"}) == {"written": 2}
    assert served.crucible.ok(*exec_, "cat", "/srv/one", "/srv/two") == "12"
    assert client("deleteFile", open_box, "srv/one").startswith("Deleted")
    assert served.crucible(*exec_, "test", "-e", "/srv/one").returncode == 1
    with pytest.raises(ClientFailed) as failed:
        client("readFile", open_box, "srv/one")
    assert failed.value.name == "NotFoundError"


def test_a_detached_command_goes_on_and_is_found(
    client: Driver, open_box: str, served: Served
) -> None:
    script = "echo out; echo err >&2; echo $$ > /tmp/pid; exec sleep 1000"
    started = client("execDetached", open_box, ["sh", "-c", script])
    assert (started["status"], started["exit_code"], started["sandbox"]) == (
        "running",
        None,
        "open",
    )
    waiting = "until test -s /tmp/pid; do sleep 0.05; done; cat /tmp/pid"
    pid = served.crucible.ok("exec", open_box, "sh", "-c", waiting).strip()
    assert int(pid) == started["pid"]
    # What it said is on its way to the log, as what the other command said was to us.
    until(lambda: client("detachedLogs", open_box, started["id"])["stdout"] == "out\n")
    until(lambda: client("detachedLogs", open_box, started["id"], "stderr")["stderr"] == "err\n")
    assert started["id"] in [one["id"] for one in client("detachedList", open_box)]
    client("detachedKill", open_box, started["id"])
    assert client("detachedStatus", open_box, started["id"])["status"] == "failed"
    assert served.crucible("exec", open_box, "test", "-e", f"/proc/{pid}").returncode == 1
    assert client("detachedLogs", open_box, started["id"])["stdout"] == "out\n"


def test_the_audit_of_a_sandbox_is_told(client: Driver, open_box: str) -> None:
    client("execInSandbox", open_box, ["echo", "for the audit"])
    lines = client("getSandboxLogs", open_box)
    assert {line["sandbox"] for line in lines} == {open_box}
    assert lines[-1]["event"] == "exec"
    assert lines[-1]["argv"] == ["echo", "for the audit"]


def test_the_end_of_a_sandbox_is_put_off(client: Driver, box: str, served: Served) -> None:
    first = client("extendTtl", box, {"by": "1h"})["expires_at"]
    before = inspected(served, box)["spec"]["ttl_s"]
    assert 3600 <= before < 7200
    assert client("extendTtl", box, {"by": "30m"})["expires_at"] > first
    assert inspected(served, box)["spec"]["ttl_s"] == pytest.approx(before + 1800, abs=1)


def test_a_snapshot_is_taken_restored_and_deleted(client: Driver, served: Served) -> None:
    client("createSandbox", "saved")
    client("writeFile", "saved", "srv/kept", "kept")
    taken = client("takeSnapshot", {"sandbox": "saved", "name": "moment"})
    assert (taken["name"], taken["sandbox"]) == ("moment", "saved")
    assert "moment" in served.crucible.ok("snapshot", "list")
    assert client("listSnapshots") == [client("getSnapshot", "moment")]
    client("removeSandbox", "saved")
    restored = client("restoreSnapshot", "moment")
    assert restored["name"] == "saved-restored"
    assert served.crucible.ok("exec", "saved-restored", "cat", "/srv/kept") == "kept"
    client("deleteSnapshot", "moment")
    assert "moment" not in served.crucible.ok("snapshot", "list")
    client("removeSandbox", "saved-restored")


def test_what_is_not_served_is_refused_by_name(client: Driver, served: Served) -> None:
    calls: list[tuple[Any, ...]] = [
        ("listOrchestrations",),
        ("createObject", {}),
        ("getSchedule", "one"),
        ("queryStore", "one", {}),
        ("createSandbox", "cloned", {"source_url": "https://example.org/x.git"}),
        ("createSandbox", "cloned", {"secret_files": ["KEY"]}),
    ]
    for words in calls:
        with pytest.raises(ClientFailed) as failed:
            client(*words)
        assert failed.value.name == "ServerError", words
        assert "not" in failed.value.message or "never" in failed.value.message
    assert "cloned" not in served.crucible.ok("list", "--quiet").split()
