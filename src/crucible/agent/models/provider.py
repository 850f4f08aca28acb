"""A model of a provider over HTTP. What speaks to it is loaded on the first call, in a thread: it takes seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from crucible.agent.models.access import Access, Waits
from crucible.agent.models.base import ModelEvent, ModelRef, Profile, Request
from crucible.agent.models.catalog import Figures
from crucible.agent.models.transform import split_thoughts

if TYPE_CHECKING:
    from crucible.agent.models.wire.calling import Caller


class ProviderModel:
    """Calls once and raises what goes wrong; `Persistent` tries again."""

    def __init__(self, ref: ModelRef, access: Access, figures: Figures, waits: Waits) -> None:
        self._ref = ref
        self._access = access
        self._figures = figures
        self._waits = waits
        self._caller: Caller | None = None
        self._loading = asyncio.Lock()

    @property
    def ref(self) -> ModelRef:
        return self._ref

    @property
    def profile(self) -> Profile:
        return self._figures.profile()

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        caller = await self._load()
        # The outer one is closed with this generator, and closes the inner ones.
        async with aclosing(caller.stream(request)) as events:  # type: ignore[type-var]
            if self._access.wire == "anthropic":
                async for event in events:
                    yield event
                return
            async with aclosing(split_thoughts(events)) as told:  # type: ignore[type-var]
                async for event in told:
                    yield event

    async def close(self) -> None:
        caller, self._caller = self._caller, None
        if caller is not None:
            await caller.close()

    async def _load(self) -> Caller:
        async with self._loading:
            if self._caller is None:
                self._caller = await asyncio.to_thread(self._make)
            return self._caller

    def _make(self) -> Caller:
        from crucible.agent.models.wire.calling import Caller

        return Caller(self._ref, self._access, self._figures, self._waits)
