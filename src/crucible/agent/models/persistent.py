"""Tries again what may succeed later: before anything was told, with growing waits, as long as the provider asks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from crucible.agent.models.base import Model, ModelEvent, ModelRef, Profile, Request, Retrying
from crucible.errors import (
    BadAnswer,
    ContextTooLong,
    EmbeddedModelFailed,
    ModelError,
    ModelOverloaded,
    ModelRefused,
    ModelTimedOut,
    ModelUnreachable,
    NoKey,
    QuotaSpent,
    RateLimited,
    UnknownModel,
    WrongKey,
)

_PASSING = (
    RateLimited,
    ModelOverloaded,
    ModelUnreachable,
    ModelTimedOut,
    BadAnswer,
    EmbeddedModelFailed,
)

# What does not reach a provider, or is refused before it is read.
_NOTHING_SPENT = (
    ContextTooLong,
    ModelOverloaded,
    ModelRefused,
    ModelUnreachable,
    NoKey,
    RateLimited,
    UnknownModel,
    WrongKey,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """A wait is drawn evenly from zero to a bound that doubles: who failed together does not come back together.

    A provider that wants to be left alone for longer than `longest_wait_s` is not asked again.
    """

    tries: int = 4
    first_wait_s: float = 0.5
    most_wait_s: float = 20.0
    longest_wait_s: float = 60.0

    def wait_s(self, failed: int, error: ModelError, drawn: float) -> float | None:
        """How long before the next try, or None for no other."""
        if failed >= self.tries or isinstance(error, QuotaSpent) or not isinstance(error, _PASSING):
            return None
        asked = float(getattr(error, "retry_after_s", 0.0))
        if asked > self.longest_wait_s:
            return None
        bound = min(self.most_wait_s, self.first_wait_s * 2.0 ** (failed - 1))
        return asked + drawn * bound


class Persistent:
    """A model that is asked again. `sleep` and `draw` are time and chance, for tests to have their own."""

    def __init__(
        self,
        model: Model,
        patience: Patience,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._patience = patience
        self._sleep = sleep
        self._draw = draw

    @property
    def ref(self) -> ModelRef:
        return self._model.ref

    @property
    def profile(self) -> Profile:
        return self._model.profile

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        failed = 0
        while True:
            is_told = False
            try:
                async with aclosing(self._model.stream(request)) as events:  # type: ignore[type-var]
                    async for event in events:
                        is_told = True
                        yield event
                return
            except ModelError as error:
                failed += 1
                wait_s = self._patience.wait_s(failed, error, self._draw())
                if is_told or wait_s is None:
                    raise
                cost, reason = may_have_cost(error), error.message
            yield Retrying(attempt=failed, delay_s=wait_s, reason=reason, may_have_cost=cost)
            await self._sleep(wait_s)

    async def close(self) -> None:
        await self._model.close()


def may_have_cost(error: BaseException) -> bool:
    """A provider that took a request may have read it all, and written more than came to us: it charges for that."""
    return not isinstance(error, _NOTHING_SPENT)


def is_passing(error: ModelError) -> bool:
    """Whether another model may do better: this one is there, but not for us and not now."""
    return isinstance(error, _PASSING)
