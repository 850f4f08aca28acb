"""Calls of an agent that wait for a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from crucible.agent.facts import ApprovalAnswer
from crucible.errors import ApprovalMissing, SessionMissing
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.models.agent import ApprovalGiven, ApprovalTold
from crucible.server.models.base import Told
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["approvals"])

ApprovalId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$")]
SessionWanted = Annotated[
    str | None, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="Of this one alone")
]


class ApprovalList(Told):
    items: list[ApprovalTold]


@router.get("/approvals", dependencies=[MAY_READ], operation_id="listApprovals")
async def list_all(
    domain: TheDomain, caller: TheCaller, session: SessionWanted = None
) -> ApprovalList:
    """What waits, the oldest first. Each is denied when its time is over."""
    engine = await domain.engine.get()
    own = {one.id for one in await engine.sessions(caller.user)}
    if session is not None and session not in own:
        raise SessionMissing(session)
    found = await engine.approvals(session)
    return ApprovalList(items=[ApprovalTold.of(one) for one in found if one.session in own])


@router.post("/approvals/{approval}", dependencies=[MAY_RUN], operation_id="answerApproval")
async def answer(
    approval: ApprovalId, asked: ApprovalGiven, domain: TheDomain, caller: TheCaller
) -> ApprovalTold:
    """`always` allows the same call for the rest of the session."""
    engine = await domain.engine.get()
    own = {one.id for one in await engine.sessions(caller.user)}
    if not any(one.id == approval and one.session in own for one in await engine.approvals()):
        raise ApprovalMissing(approval)
    given = ApprovalAnswer(
        decision=asked.decision, by=caller.id, arguments=asked.arguments, note=asked.note
    )
    return ApprovalTold.of(await engine.answer_approval(approval, given))
