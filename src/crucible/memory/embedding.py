"""Vectors by all-MiniLM-L6-v2 in a child process of ours: no key, no network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crucible import weights

if TYPE_CHECKING:
    from crucible.llama.server import LlamaServer

# Two threads that wait for each other on a busy machine take ten times as long as one.
_THREADS = 1


class MiniLM:
    """An Embedder. The model's file is made and its process started on first need; belongs to one event loop."""

    model = weights.MINILM.name

    def __init__(self, home: Path, *, idle_s: float = 300.0) -> None:
        self._home = home
        self._idle_s = idle_s
        self._opening = asyncio.Lock()
        self._server: LlamaServer | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Raises PrerequisiteMissing or EmbeddedModelFailed."""
        server = self._server or await self._open()
        return await server.embed(texts)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def _open(self) -> LlamaServer:
        from crucible.llama.server import LlamaServer
        from crucible.memory.minilm import CONTEXT_TOKENS, model_file

        async with self._opening:
            if self._server is None:
                path = await asyncio.to_thread(model_file, self._home)
                self._server = LlamaServer(
                    path,
                    "embedding",
                    name=self.model,
                    context_tokens=CONTEXT_TOKENS,
                    threads=_THREADS,
                    idle_s=self._idle_s,
                )
            return self._server
