"""Who is let in, and how those are told who are not."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest
from tests.conftest import NOBODY, Run
from tests.server.conftest import Server, serving

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


async def test_a_real_other_user_is_hung_up_on(run: Run, public_directory: Path) -> None:
    """Past the modes of file and directory, which would have kept it out before: those are opened here."""
    async with serving(public_directory / "home") as server:
        path = server.home / listening.SOCKET_NAME
        server.home.chmod(0o755)
        path.chmod(0o666)
        assert (await _ask(path, os.getuid())).startswith(b"HTTP/1.1 200")
        # Only root can become somebody else to try.
        if os.geteuid() == 0:
            assert await _ask(path, NOBODY) == b""


_ASK = """
import os, socket, sys
if int(sys.argv[2]) != os.getuid():
    os.setgroups([])
    os.setresgid(*[int(sys.argv[2])] * 3)
    os.setresuid(*[int(sys.argv[2])] * 3)
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    told = b""
    try:
        sock.sendall(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        while data := sock.recv(65536):
            told += data
    except (BrokenPipeError, ConnectionResetError):
        pass
sys.stdout.buffer.write(told)
"""


async def _ask(path: Path, user: int) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASK, str(path), str(user), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return told


async def test_whose_socket_it_is_the_kernel_tells(bare: Server) -> None:
    _, writer = await asyncio.open_unix_connection(str(bare.home / listening.SOCKET_NAME))
    assert listening._peer_uid(writer.get_extra_info("socket")) == os.getuid()
    writer.close()
    await writer.wait_closed()
