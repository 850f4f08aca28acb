"""What agentkernel's wire takes, what it refuses, and in which words. No machine is needed to say no."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.conftest import Server

from crucible.errors import BadSetting, CrucibleError, Refused, Unsupported
from crucible.server.tokens import Scope
from crucible.server.wires.agentkernel.files import MOST_BYTES, path_of
from crucible.server.wires.agentkernel.models import Exec, FileContent, FileToWrite, NewSandbox


def test_settings_become_ours() -> None:
    asked = NewSandbox(
        name="box",
        image="alpine:3.20",
        vcpus=2,
        memory_mb=300,
        profile="restrictive",
        volumes=["data:/data", "cache:/cached:ro"],
        secrets=["KEY=value:api.example.org:x-api-key"],
    )
    settings = asked.as_settings()
    spec = settings.as_spec()
    assert (spec.image, spec.cpus, spec.memory_mib) == ("alpine:3.20", 2, 512)
    assert (spec.network, spec.read_only, spec.drop_capabilities) == ("off", True, True)
    assert spec.mounts == ("data:/data:volume", "cache:/cached:volume-ro")
    assert spec.secrets == ("KEY:api.example.org:x-api-key",)
    assert [secret.value for secret in settings.given_secrets()] == ["value"]


@pytest.mark.parametrize(
    "fields",
    [
        {"source_url": "https://example.org/x.git"},
        {"source_ref": "main"},
        {"secret_files": ["KEY"]},
    ],
)
def test_what_we_cannot_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        NewSandbox(name="box", **fields).as_settings()


@pytest.mark.parametrize(
    "fields",
    [
        {"vcpus": 0},
        {"vcpus": 1000},
        {"memory_mb": 1},
        {"memory_mb": 1 << 40},
        {"volumes": ["/etc:/etc"]},
        {"volumes": ["data:/proc/x"]},
        {"secrets": ["KEY:api.example.org"]},
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        NewSandbox(name="box", **fields).as_settings().as_spec()


def test_options_of_a_command_become_ours() -> None:
    asked = Exec(command=["true"], env=["A=b=c", "EMPTY="], workdir="/usr", sudo=True).as_exec()
    assert asked.environment == {"A": "b=c", "EMPTY": ""}
    assert (asked.workdir, asked.user) == ("/usr", "root")
    assert Exec(command=["true"]).as_exec().user is None
    with pytest.raises(BadSetting):
        Exec(command=["true"], env=["no equals sign"]).as_exec()


@pytest.mark.parametrize("text", ["../etc", "a/../../b", "..", "a\0b", "a" * 5000])
def test_paths_that_lead_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        path_of(text)


@given(st.text())
def test_a_path_is_absolute_and_leads_down_or_is_refused(text: str) -> None:
    try:
        path = path_of(text)
    except BadSetting:
        return
    assert path.startswith(b"/")
    assert b".." not in path.split(b"/")


@given(st.binary())
def test_a_files_bytes_come_back_as_they_were(data: bytes) -> None:
    told = FileContent.of(data)
    assert FileToWrite(content=told.content, encoding=told.encoding).as_bytes() == data
    assert told.size == len(data)


def test_content_that_is_no_base64_is_refused() -> None:
    with pytest.raises(BadSetting):
        FileToWrite(content="%%%", encoding="base64").as_bytes()


async def test_no_is_said_in_its_envelope(doors: Server) -> None:
    async with httpx.AsyncClient(base_url=doors.url, timeout=120) as client:
        answer = await client.get("/sandboxes")
    assert answer.status_code == 401
    told = answer.json()
    assert (told["success"], told["code"]) == (False, "unauthenticated")
    assert "crucible token create" in told["error"]


async def test_both_headers_carry_the_token(doors: Server) -> None:
    token = doors.token(Scope.READ)
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-API-Key": token}):
        async with httpx.AsyncClient(base_url=doors.url, headers=headers, timeout=120) as client:
            assert (await client.get("/sandboxes")).json() == {"success": True, "data": []}
            assert (await client.post("/run", json={"command": ["true"]})).status_code == 403


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("POST", "/run", {}, 400),
        ("POST", "/run", {"command": []}, 400),
        ("POST", "/run", {"command": "ls"}, 400),
        ("POST", "/run", {"command": ["ls"], "unknown": 1}, 400),
        ("POST", "/run", {"command": ["ls"], "profile": "godlike"}, 400),
        ("POST", "/run", {"command": ["a\0b"], "image": "base"}, 404),
        ("POST", "/batch/run", {"commands": []}, 400),
        ("POST", "/batch/run", {"commands": [{"command": ["true"]}] * 1000}, 400),
        ("POST", "/sandboxes", {"name": "../up"}, 400),
        ("POST", "/sandboxes", {"name": "box", "vcpus": 10**9}, 400),
        ("POST", "/sandboxes", {"name": "box", "labels": {}}, 400),
        ("GET", "/sandboxes?label=a:b", None, 501),
        ("GET", "/sandboxes/none", None, 404),
        ("GET", "/sandboxes/%2e%2e", None, 400),
        ("GET", "/sandboxes/by-uuid/none", None, 404),
        ("DELETE", "/sandboxes/none", None, 404),
        ("POST", "/sandboxes/none/exec", {"command": ["true"]}, 404),
        ("POST", "/sandboxes/none/exec/stream", {"command": ["true"]}, 404),
        ("GET", "/sandboxes/none/exec/detached/1", None, 404),
        ("GET", "/sandboxes/none/exec/detached/x", None, 400),
        ("GET", "/sandboxes/none/exec/detached/1/logs?stream=both", None, 400),
        ("GET", "/sandboxes/none/files/etc/passwd", None, 404),
        ("PUT", "/sandboxes/none/files/x", {"content": "x", "encoding": "rot13"}, 400),
        ("PUT", "/sandboxes/none/files/a/%2e%2e/b", {"content": "x"}, 400),
        ("POST", "/sandboxes/none/files", {"files": {"/a/../b": "x"}}, 400),
        ("POST", "/sandboxes/none/extend", {"by": "for ever"}, 400),
        ("POST", "/sandboxes/none/extend", {"by": "none"}, 400),
        ("GET", "/snapshots/none", None, 404),
        ("POST", "/snapshots/none/restore", None, 404),
        ("POST", "/snapshots", {"sandbox": "none"}, 404),
        ("PATCH", "/sandboxes/none", {}, 501),
        ("POST", "/sandboxes/none/fork", {}, 501),
        ("GET", "/sandboxes/none/browser/pages", None, 501),
        ("GET", "/stores/one", None, 501),
        ("GET", "/sandboxes/none/nothing", None, 404),
        ("PUT", "/run", None, 404),
    ],
)
async def test_what_cannot_be_done_is_told(
    doors: Server, method: str, path: str, body: Any, status: int
) -> None:
    async with doors.client() as client:
        answer = await client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["success"] is False
    assert told["error"]
    assert told["request_id"] == answer.headers["X-Request-ID"]
    assert "Traceback" not in answer.text


async def test_a_body_that_is_no_json_and_one_that_is_too_large_are_refused(doors: Server) -> None:
    async with doors.client() as client:
        for path in ("/run", "/sandboxes/none/files"):
            answer = await client.post(
                path, content=b"{", headers={"Content-Type": "application/json"}
            )
            assert (answer.status_code, answer.json()["code"]) == (400, "malformed-body"), path
        text = json.dumps({"content": "x" * MOST_BYTES})
        answer = await client.put("/sandboxes/none/files/x", content=text.encode())
        assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")


async def test_a_token_for_one_sandbox_reaches_no_other(doors: Server) -> None:
    token = doors.token(Scope.RUN, sandbox="0" * 16)
    async with httpx.AsyncClient(
        base_url=doors.url, headers={"X-API-Key": token}, timeout=120
    ) as client:
        for path in ("/sandboxes", "/sandboxes/by-uuid/x", "/snapshots"):
            assert (await client.get(path)).status_code == 403, path
        assert (await client.post("/run", json={"command": ["true"]})).status_code == 403


def test_an_error_is_told_with_its_hint() -> None:
    from crucible.server.wires.explaining import explanation

    assert explanation(CrucibleError("It broke", hint="Mend it")) == "It broke. Mend it"
    assert explanation(CrucibleError("It broke")) == "It broke"
