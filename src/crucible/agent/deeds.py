"""What people do to a session besides asking it, as steps of the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from crucible.agent.options import options_to_json
from crucible.agent.seams import Step, StepKind
from crucible.agent.session import Session


def done(session: Session, kind: StepKind, asked: Mapping[str, Any]) -> Step:
    now, turn = time.time(), session.record.turn
    return Step(
        session=session.id,
        user=session.user,
        turn=turn.number if turn else session.record.turns,
        kind=kind,
        name=session.user,
        began_at=now,
        ended_at=now,
        input=json.dumps(asked, sort_keys=True).encode(),
    )


def born(session: Session, step: int) -> Step:
    """`step` of its parent is where it begins."""
    options, parent = options_to_json(session.options), session.record.parent
    return Step(
        session=session.id,
        user=session.user,
        turn=0,
        kind="session",
        name=session.id,
        began_at=session.record.created_at,
        ended_at=session.record.created_at,
        input=json.dumps(options, sort_keys=True).encode(),
        facts={"parent": parent, "before_step": step} if parent else {},
    )
