"""E2B's clients and time: what is paused when its time is over, found again by old and new paths, after restarts too.

And the ways in which they send files: packed, and with an address that was signed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import time
from typing import Any

import httpx
import pytest
from tests.server.conftest import until
from tests.server.scripted import Staged

from crucible.sandbox.records import SandboxRecord
from crucible.server.wires.e2b.facts import facts_of, keep
from crucible.values import replace


async def made(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    body = {"templateID": "base", "timeout": 600, "allow_internet_access": False, **fields}
    answer = await client.post("/e2b/v2/sandboxes", json=body)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def record_of(staged: Staged, name: str) -> SandboxRecord:
    return staged.domain.manager.records.find(name)


async def test_what_was_to_be_paused_is_paused_when_its_time_is_over(staged: Staged) -> None:
    async with staged.client() as client:
        name = (await made(client, autoPause=True))["sandboxID"]
        answer = await client.post(f"/e2b/sandboxes/{name}/timeout", json={"timeout": 0})
        assert answer.status_code == 204, answer.text
        await until(lambda: record_of(staged, name).state == "paused")
        # It is not removed by an age that it no longer has.
        assert record_of(staged, name).spec.ttl_s == 0


@pytest.mark.parametrize(
    "path", ["/sandboxes/{}/connect", "/v2/sandboxes/{}/connect", "/sandboxes/{}/resume"]
)
async def test_old_and_new_paths_wake_a_sandbox(staged: Staged, path: str) -> None:
    async with staged.client() as client:
        name = (await made(client, autoPause=True))["sandboxID"]
        assert (await client.post(f"/e2b/sandboxes/{name}/pause", json={})).status_code == 204
        woken = await client.post("/e2b" + path.format(name), json={"timeout": 300})
        assert woken.status_code == 201, woken.text
        assert woken.json()["sandboxID"] == name
        assert record_of(staged, name).state == "running"
        # Of one that runs, nothing but its time is changed, and that only to more.
        end = facts_of(record_of(staged, name)).end_at
        again = await client.post("/e2b" + path.format(name), json={"timeout": 1})
        assert again.status_code == 200, again.text
        assert facts_of(record_of(staged, name)).end_at == end


async def test_a_restarted_server_pauses_what_is_overdue_without_being_asked(
    staged: Staged,
) -> None:
    async with staged.client() as client:
        due = (await made(client, autoPause=True))["sandboxID"]
        later = (await made(client, autoPause=True))["sandboxID"]
        killed = (await made(client))["sandboxID"]
    # As a server finds it that was not there when the time was over.
    for name in (due, killed):
        record = record_of(staged, name)
        keep(record, replace(facts_of(record), end_at=time.time() - 60))
    for wire in staged.doors._wires:
        if wire.begin is not None:
            wire.begin()
    await until(lambda: record_of(staged, due).state == "paused")
    assert record_of(staged, later).state == "running"
    # That one is the owner's to remove, by its age.
    assert record_of(staged, killed).state == "running"


async def test_a_packed_body_is_unpacked(staged: Staged) -> None:
    async with staged.client() as client:
        sandbox = await made(client)
        headers = {
            "E2b-Sandbox-Id": sandbox["sandboxID"],
            "X-Access-Token": sandbox["envdAccessToken"],
            "Content-Type": "application/octet-stream",
            "Content-Encoding": "gzip",
        }
        content, path = b"hello " * 10_000, {"path": "/home/user/packed"}
        packed = gzip.compress(content)
        sent = await client.post("/e2b/files", params=path, headers=headers, content=packed)
        assert sent.status_code == 200, sent.text
        files = staged.backend.machines[sandbox["sandboxID"]].files.content
        assert files[b"/home/user/packed"] == content
        for wrong in (packed[:-20], b"no gzip", b""):
            answer = await client.post("/e2b/files", params=path, headers=headers, content=wrong)
            assert answer.status_code == 400, answer.text
        headers["Content-Encoding"] = "br"
        answer = await client.post("/e2b/files", params=path, headers=headers, content=packed)
        assert answer.status_code == 400


def signature(path: str, operation: str, token: str, expiry: int | None = None) -> dict[str, str]:
    words = [path, operation, "user", token, *([str(expiry)] if expiry else [])]
    digest = hashlib.sha256(":".join(words).encode()).digest()
    signed = "v1_" + base64.b64encode(digest).decode().rstrip("=")
    more = {"signature_expiration": str(expiry)} if expiry else {}
    return {"path": path, "username": "user", "signature": signed, **more}


async def test_a_signed_address_takes_one_file_and_nothing_else(staged: Staged) -> None:
    async with staged.client() as client:
        sandbox = await made(client)
    token, path = sandbox["envdAccessToken"], "/home/user/signed"
    async with httpx.AsyncClient(base_url=staged.url, timeout=120) as anyone:
        file = {"file": ("signed", b"content")}
        future = int(time.time()) + 600
        sent = await anyone.post(
            "/files", params=signature(path, "write", token, future), files=file
        )
        assert sent.status_code == 200, sent.text
        read = await anyone.get("/files", params=signature(path, "read", token))
        assert read.content == b"content"
        attacks = [
            {**signature(path, "read", token), "path": "/etc/passwd"},
            {**signature(path, "read", token), "username": "root"},
            signature(path, "write", token),
            signature(path, "read", token, int(time.time()) - 1),
            {**signature(path, "read", token, future), "signature_expiration": str(future + 1)},
            signature(path, "read", "ea_other"),
        ]
        for attack in attacks:
            answer = await anyone.get("/files", params=attack)
            assert answer.status_code == 401, (attack, answer.text)
        # An address to read is none to write.
        wrong = await anyone.post("/files", params=signature(path, "read", token), files=file)
        assert wrong.status_code == 401
