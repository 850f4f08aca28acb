"""Calls of an agent that wait for a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from crucible.agent.facts import ApprovalAnswer
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
async def list_all(domain: TheDomain, session: SessionWanted = None) -> ApprovalList:
    """What waits, the oldest first. Each is denied when its time is over."""
    found = await (await domain.engine.get()).approvals(session)
    return ApprovalList(items=[ApprovalTold.of(one) for one in found])


@router.post("/approvals/{approval}", dependencies=[MAY_RUN], operation_id="answerApproval")
async def answer(
    approval: ApprovalId, asked: ApprovalGiven, domain: TheDomain, caller: TheCaller
) -> ApprovalTold:
    """`always` allows the same call for the rest of the session."""
    given = ApprovalAnswer(
        decision=asked.decision, by=caller.id, arguments=asked.arguments, note=asked.note
    )
    return ApprovalTold.of(await (await domain.engine.get()).answer_approval(approval, given))
