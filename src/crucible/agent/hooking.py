"""Asks the user's hooks for the engine: what they did is recorded, and what they stop is an error."""

from __future__ import annotations

import json
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
    call = str(data.get("call", ""))[:100]
    for run in ruling.runs:
        is_last = bool(ruling.blocked) and run is ruling.runs[-1]
        await parts.recorder.record(_step(run, session, user, turn, call, has_blocked=is_last))
    if ruling.blocked:
        raise HookBlocked(ruling.blocked)
    return ruling.data


def _step(
    run: HookRun, session: str, user: str, turn: int, call: str, *, has_blocked: bool
) -> Step:
    """What it changed is recorded, too: a replay asks no hooks."""
    now = time.time()
    change = json.dumps({"change": dict(run.change)}, default=str) if run.change else ""
    return Step(
        session=session,
        user=user,
        turn=turn,
        kind="hook",
        name=run.hook,
        began_at=now - run.duration_s,
        ended_at=now,
        is_error=run.verdict in ("block", "failed"),
        input=change.encode(errors="replace"),
        output=run.reason.encode(errors="replace"),
        facts={
            "point": run.point,
            "verdict": run.verdict,
            "blocked": has_blocked,
            **({"call": call} if call else {}),
        },
    )
