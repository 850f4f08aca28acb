"""Asks the user's hooks for the engine: what they did is recorded, and what they stop is an error."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from crucible.agent.hooks.points import HookRun, Point
from crucible.agent.parts import Parts
from crucible.agent.seams import Step
from crucible.errors import HookBlocked


async def ask_hooks(
    parts: Parts,
    point: Point,
    *,
    session: str,
    user: str,
    turn: int,
    data: Mapping[str, Any],
    tool: str = "",
) -> Mapping[str, Any]:
    """The data, changed or not. Raises HookBlocked."""
    if not parts.hooks.has(point):
        return data
    ruling = await parts.hooks.ask(point, session=session, user=user, data=data, tool=tool)
    for run in ruling.runs:
        await parts.recorder.record(_step(run, session, user, turn))
    if ruling.blocked:
        raise HookBlocked(ruling.blocked)
    return ruling.data


def _step(run: HookRun, session: str, user: str, turn: int) -> Step:
    now = time.time()
    return Step(
        session=session,
        user=user,
        turn=turn,
        kind="hook",
        name=run.hook,
        began_at=now - run.duration_s,
        ended_at=now,
        is_error=run.verdict in ("block", "failed"),
        output=run.reason.encode(errors="replace"),
        facts={"point": run.point, "verdict": run.verdict},
    )
