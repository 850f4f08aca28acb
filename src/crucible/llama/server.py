"""A model file served on a socket of this user's own: started on first need, one request at a time, gone when idle.

The child process dies with us, however we die. One that crashed is started again by the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from crucible.errors import EmbeddedModelFailed, PrerequisiteMissing
from crucible.llama.order import Mode, Order

if TYPE_CHECKING:
    import httpx

_COMMAND = (sys.executable, "-P", "-m", "crucible.llama.child")
# All that it gets of our environment: nothing in it is a secret.
_INHERITED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG")
_CLOSE_S = 5.0
_LONGEST_LINE = 64 * 1024
_BATCH = 64
# What an embedding model adds of its own to each text, generously.
_FRAME_TOKENS = 12
_INSTALL = "crucible setup --embedded-model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`url` is for the head of requests; they go to `socket`. `name` is what the model is called there."""

    url: str
    socket: Path
    name: str
    key: str = field(repr=False)


class LlamaServer:
    """Belongs to one event loop. `close` ends it for now; whoever asks again starts it again."""

    def __init__(
        self,
        model: Path,
        mode: Mode,
        *,
        name: str = "",
        context_tokens: int = 4096,
        threads: int = 0,
        idle_s: float = 300.0,
        start_s: float = 120.0,
        answer_s: float = 120.0,
    ) -> None:
        self._model = model
        self._mode: Mode = mode
        self._name = name or model.stem
        self._context_tokens = context_tokens
        # Its threads wait for each other at every step: one that gets no processor holds up all.
        self._threads = threads or max(1, min(4, (os.cpu_count() or 1) // 2))
        self._idle_s = idle_s
        self._start_s = start_s
        self._answer_s = answer_s
        self._turns = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._child: _Child | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Of the child, while one runs."""
        return self._child.process.pid if self._child and self._child.is_alive else None

    async def start(self) -> Address:
        """Where it listens. Raises PrerequisiteMissing or EmbeddedModelFailed."""
        async with self._starting:
            if self._child is None or not self._child.is_alive:
                await self._drop()
                self._child = await self._spawn()
            return self._child.address

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Address]:
        """The server for oneself alone; whoever comes meanwhile waits."""
        async with self._turns:
            self._keep()
            try:
                yield await self.start()
            finally:
                self._arm()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each. What is longer than the model can read is cut."""
        if self._mode != "embedding":
            raise ValueError("this server was started for chat")
        if not texts:
            return []
        async with self.use():
            inputs = [await self._fitting(text) for text in texts]
            vectors: list[list[float]] = []
            for start in range(0, len(inputs), _BATCH):
                batch = inputs[start : start + _BATCH]
                answer = await self._post("/v1/embeddings", {"input": batch})
                found = sorted(answer["data"], key=lambda entry: entry["index"])
                vectors += [entry["embedding"] for entry in found]
            return vectors

    async def close(self) -> None:
        self._keep()
        async with self._starting:
            await self._drop()

    async def _fitting(self, text: str) -> str | list[int]:
        limit = self._context_tokens - _FRAME_TOKENS
        data = text.encode("utf-8", "replace")
        text = data.decode()
        # No token is shorter than a byte.
        if len(data) <= limit:
            return text or " "
        answer = await self._post("/tokenize", {"content": text[: limit * 32]})
        return [int(token) for token in answer["tokens"][:limit]]

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        import httpx

        child = self._child
        if child is None:
            raise EmbeddedModelFailed(f"The server of {self._name} was closed while it was asked")
        try:
            answer = await child.client.post(path, json=body)
        except httpx.HTTPError as error:
            raise EmbeddedModelFailed(
                f"The server of {self._name} broke off: {type(error).__name__} {child.last_words()}"
            ) from error
        if answer.status_code != 200:
            raise EmbeddedModelFailed(
                f"The server of {self._name} answered {answer.status_code}: {answer.text[:300]}"
            )
        return answer.json()

    async def _spawn(self) -> _Child:
        # The name of a socket has at most 107 bytes: it cannot lie in just any home.
        directory = await asyncio.to_thread(tempfile.mkdtemp, prefix="crucible-llama-")
        order = Order(
            model=str(self._model),
            name=self._name,
            mode=self._mode,
            socket=f"{directory}/llama.sock",
            key=secrets.token_urlsafe(32),
            context_tokens=self._context_tokens,
            threads=self._threads,
            parent=os.getpid(),
        )
        child = await _Child.spawn(order, self._answer_s)
        try:
            async with asyncio.timeout(self._start_s):
                line = await child.first_line()
            self._check(line, child)
        except TimeoutError:
            await child.end()
            raise EmbeddedModelFailed(
                f"The server of {self._name} did not start within {self._start_s:g} s"
            ) from None
        except BaseException:
            await child.end()
            raise
        return child

    def _check(self, line: bytes, child: _Child) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            told = {"error": child.last_words() or "it ended without a word"}
        if "address" in told:
            return
        why = str(told.get("error"))
        if "xllamacpp" in why and "ModuleNotFoundError" in why:
            raise PrerequisiteMissing(
                "xllamacpp, which runs the embedded models, is not installed",
                hint=f"Run `{_INSTALL}`",
            )
        raise EmbeddedModelFailed(f"The server of {self._name} did not start: {why}")

    async def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    def _keep(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _arm(self) -> None:
        self._keep()
        if self._child is not None:
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._retire)

    def _retire(self) -> None:
        """Without waiting: a child whose input ends leaves by itself, and takes its directory with it."""
        self._idle = None
        if self._child is not None and not self._turns.locked() and not self._starting.locked():
            self._child.dismiss()


class _Child:
    def __init__(
        self, process: asyncio.subprocess.Process, order: Order, log: int, client: httpx.AsyncClient
    ) -> None:
        self.process = process
        self.stdin = cast("asyncio.StreamWriter", process.stdin)
        self.client = client
        self.address = Address(
            url="http://llama", socket=Path(order.socket), name=order.name, key=order.key
        )
        self._log = log
        self._is_dismissed = False

    @staticmethod
    async def spawn(order: Order, answer_s: float) -> _Child:
        httpx = await asyncio.to_thread(__import__, "httpx")
        client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=order.socket, verify=False),
            base_url="http://llama",
            headers={"Authorization": f"Bearer {order.key}"},
            timeout=answer_s,
            trust_env=False,
        )
        log = os.memfd_create("llama-log", os.MFD_CLOEXEC)
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=_LONGEST_LINE,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        )
        child = _Child(process, order, log, client)
        child.stdin.write(order.as_line())
        return child

    @property
    def is_alive(self) -> bool:
        """By the kernel's word: that it died may not have come to us yet, nor have all its threads ended."""
        if self._is_dismissed or self.process.returncode is not None:
            return False
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return status.rpartition(b")")[2].split()[0] not in (b"Z", b"X")

    async def first_line(self) -> bytes:
        return await cast("asyncio.StreamReader", self.process.stdout).readline()

    def last_words(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, 1000, max(0, size - 1000)).decode(errors="replace").strip()

    def dismiss(self) -> None:
        self._is_dismissed = True
        self.stdin.close()

    async def end(self) -> None:
        self.dismiss()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.process.wait()
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await asyncio.shield(self._clear())

    async def _clear(self) -> None:
        await self.process.wait()
        await self.client.aclose()
        os.close(self._log)
        await asyncio.to_thread(shutil.rmtree, self.address.socket.parent, ignore_errors=True)
