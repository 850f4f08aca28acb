"""The child process that runs a model file: it answers, it keeps to itself, and it goes when it should."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Run

from crucible import weights
from crucible.errors import EmbeddedModelFailed, PrerequisiteMissing
from crucible.llama.server import Address, LlamaServer

_CONTEXT = 256


def _server(**options: float) -> LlamaServer:
    idle_s = options.get("idle_s", 300.0)
    model = weights.locate(weights.SMOLLM2)
    return LlamaServer(model, "embedding", context_tokens=_CONTEXT, idle_s=idle_s)


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[LlamaServer]:
    """It has a model of text; that it makes vectors too is enough here."""
    made = _server()
    try:
        yield made
    finally:
        directory = run(made.start()).socket.parent
        run(made.close())
        assert made.pid is None
        assert not directory.exists()


def test_each_text_has_a_vector_of_length_one_near_that_of_its_like(
    server: LlamaServer, run: Run
) -> None:
    a, b, c = run(server.embed(["the cat sat", "the cat sat", "SELECT * FROM prices"]))
    assert math.isclose(math.hypot(*a), 1.0, abs_tol=1e-3)
    assert sum(x * y for x, y in zip(a, b, strict=True)) > 0.999
    assert sum(x * y for x, y in zip(a, c, strict=True)) < 0.999


@pytest.mark.parametrize("text", ["", "\0", "word " * 5000, "ü" * 2000, "\ud800"])
def test_odd_texts_have_vectors_too(server: LlamaServer, run: Run, text: str) -> None:
    (vector,) = run(server.embed([text]))
    assert any(vector)


def test_nothing_has_no_vectors(server: LlamaServer, run: Run) -> None:
    assert run(server.embed([])) == []


def test_a_server_that_crashed_is_started_again(server: LlamaServer, run: Run) -> None:
    run(server.start())
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    run(_gone(first))
    assert run(server.embed(["again"]))[0]
    assert server.pid not in (None, first)


def test_the_key_is_asked_for_and_is_nowhere_to_be_seen(server: LlamaServer, run: Run) -> None:
    address = run(server.start())
    assert address.key not in repr(address)
    assert run(_status(address, "wrong")) == 401
    assert run(_status(address, address.key)) == 200
    for name in ("cmdline", "environ"):
        assert address.key.encode() not in _read(server.pid, name)


def test_only_this_user_reaches_the_socket(server: LlamaServer, run: Run) -> None:
    directory = run(server.start()).socket.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_no_secret_of_our_environment_goes_to_the_child(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-attack")

    async def look() -> bytes:
        server = _server()
        await server.start()
        try:
            return _read(server.pid, "environ")
        finally:
            await server.close()

    assert b"sk-attack" not in run(look())


def test_who_has_the_server_has_it_alone(server: LlamaServer, run: Run) -> None:
    inside = 0

    async def take() -> None:
        nonlocal inside
        async with server.use():
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    async def all_at_once() -> None:
        await asyncio.gather(*(take() for _ in range(20)))

    run(all_at_once())


def test_an_idle_server_leaves_and_comes_again_when_needed(run: Run) -> None:
    async def twice() -> None:
        server = _server(idle_s=0.0)
        async with server.use() as address:
            first = server.pid
        assert first is not None
        await _gone(first)
        assert not address.socket.parent.exists()
        assert await server.embed(["again"])
        await server.close()

    run(twice())


def test_a_file_that_is_no_model_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF nonsense")
    server = LlamaServer(tmp_path / "model.gguf", "chat")
    with pytest.raises(EmbeddedModelFailed, match="did not start"):
        run(server.start())
    assert server.pid is None


def test_a_missing_package_comes_with_the_command_that_brings_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "No module named 'xllamacpp'"
    (tmp_path / "xllamacpp.py").write_text(f"raise ModuleNotFoundError({message!r})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PrerequisiteMissing) as raised:
        run(_server().start())
    assert raised.value.hint == "Run `crucible setup --embedded-model`"


_PARENT = """
import asyncio, sys
from pathlib import Path
from crucible.llama.server import LlamaServer

async def main():
    server = LlamaServer(Path(sys.argv[1]), "embedding", context_tokens=256)
    address = await server.start()
    print(server.pid, address.socket.parent, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_child_dies_with_a_parent_that_is_killed(run: Run) -> None:
    model = str(weights.locate(weights.SMOLLM2))
    words = [sys.executable, "-c", _PARENT, model]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        parent.kill()
    run(_gone(int(pid)))
    assert not Path(directory).exists()


async def _gone(pid: int) -> None:
    """Until it has ended; a zombie has."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if _read(pid, "stat").rpartition(b")")[2].split()[0] not in b"ZX":
                await asyncio.sleep(0.01)
                continue
        return
    raise AssertionError(f"process {pid} is still there")


def _read(pid: int | None, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


async def _status(address: Address, key: str) -> int:
    transport = httpx.AsyncHTTPTransport(uds=str(address.socket))
    async with httpx.AsyncClient(transport=transport, base_url=address.url) as client:
        answer = await client.get("/props", headers={"Authorization": f"Bearer {key}"}, timeout=300)
        return answer.status_code
