"""All hooks of a point, one after the other: each sees what those before it have changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from crucible.agent.hooks.asking import ask_hook
from crucible.agent.hooks.declared import Declared
from crucible.agent.hooks.points import (
    FACTS,
    Happening,
    HookFault,
    HookRun,
    Point,
    Reply,
    Ruling,
    read_reply,
)


class Hooks:
    """`environment` is read when a hook is asked: it has what commands may be given."""

    def __init__(
        self,
        declared: Sequence[Declared] = (),
        *,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.declared = tuple(declared)
        self._environment = environment or {}
        self._clock = clock

    def has(self, point: Point) -> bool:
        """Whether anybody is asked: what hooks are told may take some work to write down."""
        return any(point in hook.on for hook in self.declared)

    async def ask(
        self, point: Point, *, session: str, user: str, data: Mapping[str, Any], tool: str = ""
    ) -> Ruling:
        """Never raises for what a hook does: a failing one blocks or is passed over, as it was declared."""
        now: Mapping[str, Any] = data
        runs: list[HookRun] = []
        for hook in self.declared:
            if point not in hook.on or not _is_for(hook, tool):
                continue
            began = self._clock()
            happening = Happening(point=point, session=session, user=user, data=now)
            reply, fault = await self._reply(hook, happening)
            runs.append(_run(hook, point, reply, fault, self._clock() - began))
            stopped = reply.block or (fault if hook.policy(point) == "block" else "")
            if stopped and FACTS[point].can_block:
                return Ruling(data=now, runs=tuple(runs), blocked=f"Hook {hook.name!r}: {stopped}")
            if reply.change:
                now = {**now, **reply.change}
        return Ruling(data=now, runs=tuple(runs))

    async def _reply(self, hook: Declared, happening: Happening) -> tuple[Reply, str]:
        try:
            answer = await ask_hook(hook, happening, self._environment)
            return read_reply(happening.point, answer), ""
        except HookFault as fault:
            return Reply(), str(fault)


def _is_for(hook: Declared, tool: str) -> bool:
    return not tool or any(fnmatchcase(tool, pattern) for pattern in hook.tools)


def _run(hook: Declared, point: Point, reply: Reply, fault: str, duration_s: float) -> HookRun:
    if fault:
        return HookRun(
            hook=hook.name, point=point, verdict="failed", duration_s=duration_s, reason=fault
        )
    verdict: Any = "block" if reply.block else "change" if reply.change else "pass"
    return HookRun(
        hook=hook.name, point=point, verdict=verdict, duration_s=duration_s, reason=reply.block,
        change=reply.change,
    )  # fmt: skip
