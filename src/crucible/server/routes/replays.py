"""Recorded sessions, run again."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from crucible.agent.replaying import Replay
from crucible.server.auth import MAY_RUN, TheDomain
from crucible.server.belonging import OWN_RUN
from crucible.server.models.base import Told
from crucible.server.routes import PREFIX
from crucible.server.routes.sessions import Id

router = APIRouter(prefix=PREFIX, tags=["runs"])


class DivergenceTold(Told):
    """The first step that came out otherwise. `number` is that of its entry in the ledger."""

    number: int
    step: str
    what: str
    recorded: str
    got: str


class ReplayTold(Told):
    run: str
    calls: int
    same: int
    erased: int = Field(description="Steps without anything left to hold them against")
    divergence: DivergenceTold | None

    @classmethod
    def of(cls, replay: Replay) -> ReplayTold:
        return cls.model_validate(replay, from_attributes=True)


@router.post("/runs/{id}/replay", dependencies=[MAY_RUN, OWN_RUN], operation_id="replayRun")
async def replay(id: Id, domain: TheDomain) -> ReplayTold:
    """Its calls again, in a fresh sandbox, with the recorded answers of the model; ends with the first difference."""
    return ReplayTold.of(await (await domain.engine.get()).replay(id))
