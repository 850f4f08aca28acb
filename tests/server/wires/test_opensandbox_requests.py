"""What OpenSandbox's wire takes, what it refuses, and in which words. No machine is needed to say no."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.server.conftest import Server

from crucible import system
from crucible.errors import BadSetting, Refused, Unsupported
from crucible.server.tokens import Scope
from crucible.server.wires.opensandbox.commands import Run
from crucible.server.wires.opensandbox.files import Permission, parse_range
from crucible.server.wires.opensandbox.lines import LONGEST_LINE, Lines
from crucible.server.wires.opensandbox.models import IDLE, NewSandbox

PREFIX = "/opensandbox"


def wanted(**fields: Any) -> NewSandbox:
    return NewSandbox.model_validate({"image": {"uri": "base"}, **fields})


def test_settings_become_ours() -> None:
    spec = wanted(
        timeout=600,
        resourceLimits={"cpu": "1500m", "memory": "500Mi"},
        env={"A": "b"},
        entrypoint=IDLE,
        secureAccess=True,
        platform={"os": "linux", "arch": system.machine()},
    ).as_settings().as_spec()  # fmt: skip
    assert (spec.image, spec.cpus, spec.memory_mib, spec.ttl_s) == ("base", 2, 512, 600)
    assert dict(spec.environment) == {"A": "b"}
    assert spec.network == "full"


@pytest.mark.parametrize(
    "policy, network, allow, deny",
    [
        ({}, "off", (), ()),
        ({"defaultAction": "allow"}, "full", (), ()),
        (
            {"defaultAction": "allow", "egress": [{"action": "deny", "target": "a.org"}]},
            "full",
            (),
            ("a.org",),
        ),
        (
            {"egress": [{"action": "allow", "target": "*.a.org"}]},
            "allowlist",
            ("*.a.org",),
            (),
        ),
    ],
)
def test_a_policy_becomes_ours(
    policy: dict[str, Any], network: str, allow: tuple[str, ...], deny: tuple[str, ...]
) -> None:
    spec = wanted(networkPolicy=policy).as_settings().as_spec()
    assert (spec.network, spec.allow, spec.deny) == (network, allow, deny)


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"a": "b"}},
        {"entrypoint": ["sleep", "1"]},
        {"volumes": [{"name": "x"}]},
        {"extensions": {"poolRef": "x"}},
        {"lifecycle": {"preStart": {}}},
        {"snapshotId": "x"},
        {"templateId": "x"},
        {"resourceRequests": {"cpu": "1"}},
        {"resourceLimits": {"gpu": "1"}},
        {"credentialProxy": {"enabled": True}},
        {"image": {"uri": "base", "auth": {"username": "a", "password": "b"}}},
        {"platform": {"os": "windows", "arch": "amd64"}},
        {"platform": {"os": "linux", "arch": "riscv64"}},
    ],
)
def test_what_we_cannot_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        wanted(**fields).as_settings()


@pytest.mark.parametrize(
    "limits",
    [{"cpu": "many"}, {"cpu": "-1"}, {"memory": "1Xi"}, {"memory": ""}, {"memory": "9" * 400},
     {"cpu": "999999"}, {"memory": "1Ki"}],
)  # fmt: skip
def test_sizes_that_are_none_are_refused(limits: dict[str, str]) -> None:
    with pytest.raises(Refused):
        wanted(resourceLimits=limits).as_settings().as_spec()


def test_a_command_becomes_ours() -> None:
    asked = Run(command="echo $A", cwd="/usr", timeout=1500, uid=7, gid=8, envs={"A": "b"})
    command = asked.as_command()
    assert command.argv == ["/bin/sh", "-c", "echo $A"]
    assert (command.workdir, command.timeout_s, command.user) == ("/usr", 1.5, "7:8")
    assert Run(argv=["a", "b c"]).as_command().argv == ["a", "b c"]
    for fields in ({}, {"command": "a", "argv": ["a"]}, {"command": "a", "gid": 1}):
        with pytest.raises(ValidationError):
            Run.model_validate(fields)


def test_a_mode_is_read_as_octal() -> None:
    assert Permission(mode=640).bits == 0o640
    with pytest.raises(BadSetting):
        assert Permission(mode=899).bits


def test_ranges_are_read() -> None:
    assert parse_range(None) == (0, 0)
    assert parse_range("bytes=5-") == (5, 0)
    assert parse_range("bytes=0-99") == (0, 100)
    for text in ("bytes=9-1", "bytes=-5", "lines=0-1", "bytes=0-1,3-4", "bytes=" + "9" * 30 + "-"):
        with pytest.raises(BadSetting):
            parse_range(text)


@given(st.lists(st.text(alphabet="ab\r\n")))
def test_lines_are_cut_at_their_ends_alone(pieces: list[str]) -> None:
    lines = Lines()
    told = [lines.take(piece) for piece in pieces]
    assert all(text == "" or text[-1] in "\r\n" for text in told)
    assert "".join(told) + lines.rest() == "".join(pieces)


def test_a_line_without_end_is_told_in_pieces() -> None:
    lines = Lines()
    assert lines.take("x" * LONGEST_LINE) == ""
    assert lines.take("x") == "x" * (LONGEST_LINE + 1)


async def test_its_own_header_carries_the_token(doors: Server) -> None:
    token = doors.token(Scope.READ)
    async with httpx.AsyncClient(base_url=doors.url, timeout=120) as client:
        refused = await client.get(f"{PREFIX}/v1/sandboxes")
        assert refused.status_code == 401
        assert refused.json()["code"] == "unauthenticated"
        headers = {"OPEN-SANDBOX-API-KEY": token}
        answer = await client.get(f"{PREFIX}/v1/sandboxes", headers=headers)
        assert answer.json()["pagination"]["totalItems"] == 0
        made = await client.post(f"{PREFIX}/v1/sandboxes", headers=headers, json={})
        assert made.status_code == 403


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("POST", "/v1/sandboxes", {}, 400),
        ("POST", "/v1/sandboxes", {"image": {"uri": "none-such"}}, 404),
        ("POST", "/v1/sandboxes", {"image": {"uri": "base"}, "unknown": 1}, 400),
        ("POST", "/v1/sandboxes", {"image": {"uri": "base"}, "timeout": 10**9}, 400),
        ("POST", "/v1/sandboxes", {"image": {"uri": "base"}, "metadata": {"a": "b"}}, 501),
        ("GET", "/v1/sandboxes?page=0", None, 400),
        ("GET", "/v1/sandboxes?pageSize=100000", None, 400),
        ("GET", "/v1/sandboxes?metadata=a%3Db", None, 501),
        ("GET", "/v1/sandboxes/none", None, 404),
        ("GET", "/v1/sandboxes/%2e%2e", None, 400),
        ("DELETE", "/v1/sandboxes/none", None, 404),
        ("POST", "/v1/sandboxes/none/pause", None, 404),
        ("POST", "/v1/sandboxes/none/renew-expiration", {"expiresAt": "tomorrow"}, 400),
        ("GET", "/v1/sandboxes/none/endpoints/44772", None, 404),
        ("GET", "/v1/sandboxes/none/endpoints/99999", None, 400),
        ("GET", "/v1/snapshots", None, 501),
        ("POST", "/v1/metrics/events", {}, 501),
        ("GET", "/sandboxes/none/egress/policy", None, 501),
        ("GET", "/sandboxes/none/execd/ping", None, 404),
        ("POST", "/sandboxes/none/execd/command", {"command": "ls"}, 404),
        ("POST", "/sandboxes/none/execd/command", {}, 400),
        ("DELETE", "/sandboxes/none/execd/command?id=x", None, 400),
        ("GET", "/sandboxes/none/execd/command/status/1", None, 404),
        ("GET", "/sandboxes/none/execd/files/download?path=/etc/passwd", None, 404),
        ("GET", "/sandboxes/none/execd/files/download?path=/x&offset=1", None, 501),
        ("GET", "/sandboxes/none/execd/directories/list?path=/&depth=2", None, 501),
        ("POST", "/sandboxes/none/execd/files/mv", [], 400),
        ("POST", "/sandboxes/none/execd/session", {}, 501),
        ("POST", "/sandboxes/none/execd/files/permissions", {}, 501),
        ("GET", "/nothing", None, 404),
    ],
)
async def test_what_cannot_be_done_is_told(
    doors: Server, method: str, path: str, body: Any, status: int
) -> None:
    async with doors.client() as client:
        answer = await client.request(method, PREFIX + path, json=body)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["code"]
    assert told["message"]
    assert told["request_id"] == answer.headers["X-Request-ID"]
    assert "Traceback" not in answer.text


async def test_a_token_for_one_sandbox_reaches_no_other(doors: Server) -> None:
    token = doors.token(Scope.RUN, sandbox="0" * 16)
    async with httpx.AsyncClient(
        base_url=doors.url, headers={"X-API-Key": token}, timeout=120
    ) as client:
        assert (await client.get(f"{PREFIX}/v1/sandboxes")).status_code == 403
        assert (await client.post(f"{PREFIX}/v1/sandboxes", json={})).status_code == 403
