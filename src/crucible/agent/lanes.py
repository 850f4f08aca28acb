"""Four lanes through the engine, so that a short question never stands behind long work.

Control and Query have places of their own. Execute and Generate share one number of places, and what waits in Execute
goes first: a command whose model already waits for it ends a turn sooner than a new model call does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from crucible.agent.facts import LaneFacts

Name = Literal["control", "query", "execute", "generate"]
IN_ORDER: tuple[Name, ...] = ("control", "query", "execute", "generate")
_SHARING: tuple[Name, ...] = ("execute", "generate")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLimits:
    """How many of each run at a time. `together` bounds Execute and Generate in sum."""

    control: int = 64
    query: int = 64
    execute: int = 32
    generate: int = 128
    together: int = 160


@dataclass(slots=True, kw_only=True)
class _Lane:
    name: Name
    limit: int
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    done: int = 0
    waited_s: float = 0.0
    longest_wait_s: float = 0.0
    ran_s: float = 0.0


class Lanes:
    def __init__(self, limits: LaneLimits | None = None) -> None:
        chosen = limits or LaneLimits()
        self._together = chosen.together
        self._lanes = {name: _Lane(name=name, limit=getattr(chosen, name)) for name in IN_ORDER}

    @contextlib.asynccontextmanager
    async def enter(self, name: Name) -> AsyncIterator[None]:
        """Waits for a place in the lane, first come first served, and holds it."""
        lane = self._lanes[name]
        began = time.monotonic()
        await self._wait(lane)
        entered = time.monotonic()
        lane.waited_s += entered - began
        lane.longest_wait_s = max(lane.longest_wait_s, entered - began)
        try:
            yield
        finally:
            lane.ran_s += time.monotonic() - entered
            lane.done += 1
            self._leave(lane)

    def facts(self) -> tuple[LaneFacts, ...]:
        return tuple(
            LaneFacts(
                name=lane.name,
                priority=priority,
                limit=lane.limit,
                running=lane.running,
                waiting=len(lane.waiting),
                done=lane.done,
                waited_s=lane.waited_s,
                longest_wait_s=lane.longest_wait_s,
                ran_s=lane.ran_s,
            )
            for priority, lane in enumerate(self._lanes.values())
        )

    async def _wait(self, lane: _Lane) -> None:
        if not lane.waiting and self._has_place(lane):
            lane.running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place came in the moment in which we were told to leave.
                self._leave(lane)
            else:
                with contextlib.suppress(ValueError):
                    lane.waiting.remove(turn)
            raise

    def _leave(self, lane: _Lane) -> None:
        lane.running -= 1
        for other in self._lanes.values():
            while other.waiting and self._has_place(other):
                turn = other.waiting.popleft()
                if not turn.done():
                    other.running += 1
                    turn.set_result(None)

    def _has_place(self, lane: _Lane) -> bool:
        if lane.running >= lane.limit:
            return False
        if lane.name not in _SHARING:
            return True
        return sum(self._lanes[name].running for name in _SHARING) < self._together
