"""The wire of E2B at its edges: who may come in, what is refused and how, what strange bytes do."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.conftest import Server

from crucible.errors import BadRequest, CrucibleError, MalformedBody
from crucible.server.tokens import Scope
from crucible.server.wires.e2b.connect import LAST, MAX_MESSAGE, envelope, envelopes
from crucible.server.wires.e2b.models import EVERYWHERE, Network


async def test_the_control_plane_wants_one_of_our_tokens(bare: Server) -> None:
    async with bare.client(Authorization="") as client:
        for headers in ({}, {"X-API-KEY": "e2b_00"}, {"X-API-KEY": "e2b_zz"}, {"X-API-KEY": "no"}):
            answer = await client.get("/e2b/v2/sandboxes", headers=headers)
            assert answer.status_code == 401, answer.text
            assert answer.json()["code"] == 401
        key = bare.token(Scope.READ)
        for form in (key, "e2b_" + key.encode().hex()):
            answer = await client.get("/e2b/v2/sandboxes", headers={"X-API-KEY": form})
            assert (answer.status_code, answer.json()) == (200, [])


async def test_a_token_that_may_only_look_makes_nothing(bare: Server) -> None:
    async with bare.client(Scope.READ) as client:
        answer = await client.post("/e2b/v2/sandboxes", json={"templateID": "base"})
        assert answer.status_code == 403


@pytest.mark.parametrize(
    "path", ["/process.Process/List", "/filesystem.Filesystem/Stat", "/files?path=x", "/health"]
)
async def test_a_sandbox_that_is_not_there_is_told_as_gone(bare: Server, path: str) -> None:
    async with bare.client(Authorization="") as client:
        method = "GET" if path[1] in "fh" and "." not in path else "POST"
        answer = await client.request(
            method,
            f"/e2b{path}",
            headers={"E2b-Sandbox-Id": "inothere"},
            content=b"{}" if method == "POST" else None,
        )
        assert answer.status_code == 502, answer.text
        assert "not found" in answer.json()["message"]


@pytest.mark.parametrize(
    "field",
    [
        {"mcp": {"github": {}}},
        {"iam": {"tokens": {"a": {}}}},
        {"volumeMounts": [{"name": "v", "path": "/v"}]},
        {"autoPauseMemory": False},
        {"autoResume": {"enabled": True}},
        {"network": {"rules": {"example.com": []}}},
        {"network": {"allowOut": ["10.0.0.0/8"]}},
        {"network": {"egressProxy": {"address": "proxy:1080"}}},
    ],
)
async def test_what_is_not_served_is_refused_by_name(bare: Server, field: dict[str, Any]) -> None:
    async with bare.client() as client:
        answer = await client.post("/e2b/v2/sandboxes", json={"templateID": "base", **field})
        assert answer.status_code == 501, answer.text
        assert bare.domain.manager.records.sandboxes() == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"[]", b'{"templateID": 1}', b'{"templateID": "base", "surprise": 1}'],
)
async def test_bodies_that_are_none_are_refused(bare: Server, body: bytes) -> None:
    async with bare.client() as client:
        answer = await client.post("/e2b/sandboxes", content=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["message"]


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/templates"),
        ("POST", "/v3/templates"),
        ("GET", "/volumes"),
        ("GET", "/secrets"),
        ("GET", "/v2/sandboxes/x/logs"),
        ("GET", "/teams"),
    ],
)
async def test_routes_that_are_not_served_say_so(bare: Server, method: str, path: str) -> None:
    async with bare.client() as client:
        answer = await client.request(method, f"/e2b{path}")
        assert answer.status_code == 501, answer.text
        assert "not served" in answer.json()["message"]


async def test_an_address_of_a_file_needs_a_signature_of_some_sandbox(bare: Server) -> None:
    async with bare.client(Authorization="") as client:
        for query in ("", "&signature=v1_x", "&signature=v1_x&signature_expiration=1"):
            answer = await client.get(f"/files?path=/etc/passwd{query}")
            assert answer.status_code == 401, answer.text


@pytest.mark.parametrize(
    "asked, policy",
    [
        (Network(), ("full", (), ())),
        (Network(allow_internet_access=False), ("off", (), ())),
        (Network(denyOut=[EVERYWHERE]), ("off", (), ())),
        (Network(denyOut=[EVERYWHERE], allowOut=["a.org"]), ("allowlist", ("a.org",), ())),
        (Network(denyOut=["a.org"]), ("full", (), ("a.org",))),
    ],
)
def test_rules_become_a_policy(asked: Network, policy: object) -> None:
    assert asked.policy("full") == policy


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), max_size=5))
def test_messages_survive_their_envelopes(messages: list[dict[str, int]]) -> None:
    held = bytearray(b"".join(map(envelope, messages)) + envelope({}, LAST))
    assert envelopes(held) == messages
    assert not held


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_refusals(data: bytes) -> None:
    with suppress(CrucibleError):
        envelopes(bytearray(data))


def test_a_message_that_is_too_long_or_packed_is_refused() -> None:
    with pytest.raises(BadRequest):
        envelopes(bytearray(struct.pack(">BI", 0, MAX_MESSAGE + 1)))
    with pytest.raises(BadRequest):
        envelopes(bytearray(struct.pack(">BI", 1, 2) + b"{}"))
    with pytest.raises(MalformedBody):
        envelopes(bytearray(struct.pack(">BI", 0, 100_000) + b"[" * 100_000))
    assert json.loads(envelope({"a": 1})[5:]) == {"a": 1}
