"""Sandboxes over HTTP from their beginning to their end, and what is shared by them."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from tests.server.conftest import Server, until

from crucible.server.tokens import Scope

pytestmark = pytest.mark.vm

ALL = "/api/v1/sandboxes"


async def made(client: httpx.AsyncClient, name: str, **fields: object) -> None:
    body = {"name": name, "settings": {"network": "off"}, **fields}
    answer = await client.post(ALL, json=body)
    assert answer.status_code == 201, answer.text


async def output(client: httpx.AsyncClient, name: str, *argv: str) -> str:
    answer = await client.post(f"{ALL}/{name}/exec", json={"argv": list(argv)})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["output"])


async def test_a_sandbox_is_made_stopped_started_paused_and_removed(server: Server) -> None:
    async with server.client() as client:
        await made(client, "life", start=False)
        assert (await client.get(f"{ALL}/life")).json()["state"] == "created"
        for verb, state in (
            ("start", "running"), ("pause", "paused"), ("resume", "running"), ("stop", "stopped"),
        ):  # fmt: skip
            answer = await client.post(f"{ALL}/life/{verb}")
            assert (answer.status_code, answer.json()["state"]) == (200, state)
        await client.post(f"{ALL}/life/start")
        refused = await client.delete(f"{ALL}/life")
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong-state")
        assert (await client.delete(f"{ALL}/life", params={"force": True})).status_code == 204
        gone = await client.get(f"{ALL}/life")
        assert (gone.status_code, gone.json()["code"]) == (404, "sandbox-missing")


async def test_a_probe_of_the_settings_makes_uses_and_removes_a_real_machine(
    server: Server,
) -> None:
    async with server.client() as client:
        before = (await client.get(ALL)).json()
        told = (await client.post("/api/v1/settings/probe")).text
        assert (await client.get(ALL)).json() == before
    blocks = [
        dict(line.split(": ", 1) for line in one.splitlines()) for one in told.split("\n\n") if one
    ]
    events = [(one["event"], json.loads(one["data"])) for one in blocks]
    stages = [data for kind, data in events if kind == "stage" and data["state"] == "done"]
    assert [data["name"] for data in stages] == ["create", "write", "run", "read", "remove"], told
    assert stages[2]["detail"].startswith("Linux")
    done = events[-1][1]
    assert (done["ok"], done["error"]) == (True, None)
    assert done["isolation"] in stages[0]["detail"]


async def test_two_removals_at_once_are_one_removal_and_one_answer(server: Server) -> None:
    async with server.client() as client:
        await made(client, "twice")
        at = f"{ALL}/twice?force=true"
        answers = await asyncio.gather(*(client.delete(at) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [204, 404, 404, 404]


async def test_a_snapshot_is_restored_and_a_fork_has_its_memory(server: Server) -> None:
    async with server.client() as client:
        await made(client, "one")
        await output(client, "one", "sh", "-c", "echo kept > /dev/shm/note")
        taken = await client.post(f"{ALL}/one/snapshots", json={"tag": "then"})
        assert taken.status_code == 201, taken.text
        assert (await client.get("/api/v1/snapshots")).json()["items"][0]["tag"] == "then"
        restored = await client.post("/api/v1/snapshots/then/restore", json={"name": "two"})
        assert restored.status_code == 201, restored.text
        forked = await client.post(f"{ALL}/one/fork", json={"names": ["three"]})
        assert forked.status_code == 201, forked.text
        for name in ("two", "three"):
            assert await output(client, name, "cat", "/dev/shm/note") == "kept\n"
            await client.delete(f"{ALL}/{name}?force=true")
        assert (await client.delete("/api/v1/snapshots/then")).status_code == 204
        await client.delete(f"{ALL}/one?force=true")


async def test_its_policy_its_ports_and_its_figures_are_told(server: Server, box: str) -> None:
    async with server.client() as client:
        at = f"{ALL}/{box}"
        changed = await client.patch(
            f"{at}/network", json={"mode": "allowlist", "allow": ["a.test"]}
        )
        assert changed.json() == {"mode": "allowlist", "allow": ["a.test"], "deny": []}
        bad = await client.patch(f"{at}/network", json={"allow": ["not a rule"]})
        assert (bad.status_code, bad.json()["code"]) == (422, "bad-setting")
        assert (await client.patch(f"{at}/network", json={"mode": "off"})).json()["mode"] == "off"
        assert (await client.get(f"{at}/ports")).json() == {"listening": [], "published": []}
        assert (await client.get(f"{at}/stats")).json()["memory_total"] > 0
        await output(client, box, "echo", "in the log")
        assert "in the log\n" in (await client.get(f"{at}/logs")).text
        assert (await client.get(f"{at}/logs", params={"source": "console"})).status_code == 200


async def test_a_port_that_listens_can_be_opened(server: Server, box: str) -> None:
    async with server.client() as client:
        at = f"{ALL}/{box}"
        served = [
            "sh",
            "-c",
            "cd /tmp && echo from inside >served && exec python3 -m http.server 8123",
        ]
        command = (await client.post(f"{at}/commands", json={"argv": served})).json()["id"]
        async with asyncio.timeout(120):
            # Nobody could wake us.
            while 8123 not in (await client.get(f"{at}/ports")).json()["listening"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        opened = (await client.post(f"{at}/ports", json={"guest": 8123})).json()["published"]
        assert [(port["address"], port["guest"]) for port in opened] == [("127.0.0.1", 8123)]
        again = await client.post(f"{at}/ports", json={"guest": 8123})
        assert again.json()["published"] == opened
        async with httpx.AsyncClient(trust_env=False) as other:
            got = await other.get(f"http://127.0.0.1:{opened[0]['host']}/served")
        assert got.text == "from inside\n"
        assert (await client.post(f"{at}/ports", json={"guest": 0})).status_code == 422
        await client.delete(f"{at}/commands/{command}")


async def test_a_token_of_one_sandbox_opens_no_other(server: Server, box: str) -> None:
    async with server.client() as client:
        await made(client, "other", start=False)
        answer = await client.post(f"{ALL}/{box}/tokens", json={"name": "for box"})
        assert answer.status_code == 201, answer.text
        own = {"Authorization": f"Bearer {answer.json()['token']}"}
        assert (await client.get(f"{ALL}/{box}", headers=own)).status_code == 200
        for method, path in (
            ("GET", f"{ALL}/other"), ("GET", ALL), ("POST", ALL), ("GET", "/metrics"),
            ("GET", "/api/v1/events"), ("DELETE", f"{ALL}/other"), ("POST", "/api/v1/run"),
        ):  # fmt: skip
            body = {"argv": ["true"]} if path.endswith("run") else {}
            denied = await client.request(method, path, headers=own, json=body)
            assert denied.status_code == 403, path
        await client.delete(f"{ALL}/other")


async def test_files_of_the_host_are_for_administrators(server: Server) -> None:
    async with server.client(Scope.RUN) as client:
        for body in (
            {"host_directory": "/etc"},
            {"settings": {"mounts": ["/etc:/copy:ro"]}},
            {"settings": {"include_credentials": True}},
        ):
            answer = await client.post(ALL, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_changes_in_a_copied_directory_are_listed_and_patched(server: Server) -> None:
    source = server.home / "project"
    source.mkdir()
    (source / "a.txt").write_text("old\n")
    async with server.client() as client:
        await made(client, "copied", host_directory=str(source))
        await output(client, "copied", "sh", "-c", "echo new > a.txt; touch b")
        found = (await client.get(f"{ALL}/copied/changes")).json()
        assert {one["path"]: one["change"] for one in found} == {"a.txt": "modified", "b": "added"}
        patch = (await client.get(f"{ALL}/copied/changes/patch")).text
        assert "-old\n+new\n" in patch
        assert (source / "a.txt").read_text() == "old\n"
        await client.delete(f"{ALL}/copied?force=true")


async def test_a_sandbox_that_dies_during_a_call_is_an_answer(server: Server) -> None:
    async with server.client() as client:
        await made(client, "dying")
        calling = asyncio.create_task(
            client.post(f"{ALL}/dying/exec", json={"argv": ["sh", "-c", "echo on; sleep 600"]})
        )
        record = server.domain.manager.records.find("dying")
        await until(lambda: bool(server.domain.executions.running(record)))
        await client.delete(f"{ALL}/dying?force=true")
        answer = await calling
        assert answer.status_code == 502, answer.text
        assert answer.json()["code"] in ("guest-gone", "sandbox")
        assert "Traceback" not in answer.text
