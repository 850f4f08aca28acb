"""SmolLM2 in a child process of ours: a very small model that keeps everything running without a key or a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crucible import weights
from crucible.agent.models.access import Access, Waits
from crucible.agent.models.base import ModelEvent, ModelRef, Profile, Request
from crucible.agent.models.catalog import EMBEDDED, Figures
from crucible.errors import UnknownModel
from crucible.llama.server import Address, LlamaServer

if TYPE_CHECKING:
    from crucible.agent.models.wire.calling import Caller

NAME = "smollm2-135m"
DESCRIPTION = "a very small model (135M) that keeps everything running without a key or a network"
CONTEXT_TOKENS = 4096
_FIGURES = Figures(
    context_tokens=CONTEXT_TOKENS, output_tokens=1024, calls_tools=False, has_native_schema=True
)


class EmbeddedModel:
    """One answer at a time: whoever asks meanwhile waits."""

    def __init__(self, ref: ModelRef, *, idle_s: float = 300.0) -> None:
        if ref.name != NAME:
            raise UnknownModel(
                f"There is no embedded model {ref.name!r}", hint=f"Did you mean {EMBEDDED}:{NAME}?"
            )
        self._ref = ref
        self._idle_s = idle_s
        self._server: LlamaServer | None = None
        self._caller: tuple[Address, Caller] | None = None

    @property
    def ref(self) -> ModelRef:
        return self._ref

    @property
    def profile(self) -> Profile:
        return replace(_FIGURES.profile(), is_tiny=True)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Raises PrerequisiteMissing too, with the command that installs what is missing."""
        if self._server is None:
            self._server = await self._make_server()
        # It was never taught to call tools: what it would make of them is noise.
        plain = replace(request, tools=(), pictures={})
        async with self._server.use() as address:
            caller = await self._called(address)
            async with aclosing(caller.stream(plain)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event

    async def close(self) -> None:
        await self._forget_caller()
        if self._server is not None:
            await self._server.close()

    async def _make_server(self) -> LlamaServer:
        path = await asyncio.to_thread(verified_model)
        return LlamaServer(
            path, "chat", name=NAME, context_tokens=CONTEXT_TOKENS, idle_s=self._idle_s
        )

    async def _called(self, address: Address) -> Caller:
        if self._caller is None or self._caller[0] != address:
            await self._forget_caller()
            self._caller = (address, await asyncio.to_thread(self._make_caller, address))
        return self._caller[1]

    def _make_caller(self, address: Address) -> Caller:
        from crucible.agent.models.wire.calling import Caller

        access = Access(
            provider=EMBEDDED,
            wire="openai",
            base_url=f"{address.url}/v1",
            key=address.key,
            socket=address.socket,
        )
        return Caller(self._ref, access, _FIGURES, Waits())

    async def _forget_caller(self) -> None:
        known, self._caller = self._caller, None
        if known is not None:
            await known[1].close()


def verified_model() -> Path:
    """The model's file, read once from end to end for as long as it is the same."""
    path = weights.locate(weights.SMOLLM2)
    found = path.stat()
    return _verified(path, found.st_size, found.st_mtime_ns)


@cache
def _verified(path: Path, size: int, mtime_ns: int) -> Path:
    return weights.verify(weights.SMOLLM2)
