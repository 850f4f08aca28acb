"""Who is let in, and how those are told who are not."""

from __future__ import annotations

import asyncio
import os

import httpx
import pytest
from tests.server.conftest import Server

from crucible.server import listening
from crucible.server.tokens import Scope


async def test_health_needs_no_token_and_all_else_does(bare: Server) -> None:
    async with httpx.AsyncClient(base_url=bare.url, timeout=120) as client:
        assert (await client.get("/health")).json()["status"] == "ok"
        for path in ("/api/v1/sandboxes", "/api/v1/openapi.json", "/metrics", "/nothing"):
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["code"] == "unauthenticated"


async def test_our_own_socket_needs_no_token(bare: Server) -> None:
    async with bare.local() as client:
        answer = await client.get("/api/v1/sandboxes")
        assert answer.json() == {"items": [], "next": None}


async def test_a_token_may_do_what_its_scope_says(bare: Server) -> None:
    async with bare.client(Scope.READ) as client:
        assert (await client.get("/api/v1/sandboxes")).status_code == 200
        answer = await client.post("/api/v1/sandboxes", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_another_user_is_hung_up_on_at_our_socket(
    bare: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bare.home / listening.SOCKET_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    # What the kernel tells of the other end, as if another had come past the modes of file and directory.
    monkeypatch.setattr(listening, "_peer_uid", lambda sock: os.getuid() + 1)
    async with bare.local() as client:
        with pytest.raises(httpx.TransportError):
            await client.get("/health")


async def test_whose_socket_it_is_the_kernel_tells(bare: Server) -> None:
    _, writer = await asyncio.open_unix_connection(str(bare.home / listening.SOCKET_NAME))
    assert listening._peer_uid(writer.get_extra_info("socket")) == os.getuid()
    writer.close()
    await writer.wait_closed()
