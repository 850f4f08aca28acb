"""Recorded sessions, run again."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from crucible.agent.replaying.record import Replay
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


class GapTold(Told):
    """From this entry on the run cannot be replayed: what is needed for it is not in the record any more."""

    number: int
    step: str
    why: str


class ReplayTold(Told):
    run: str
    steps: int = Field(description="Entries of the record that came about again")
    calls: int = Field(description="Calls of tools that ran again")
    same: int = Field(description="Calls that came out as recorded")
    alike: int = Field(description="Those of the same that differ in times and ids alone")
    erased: int = Field(description="Entries after the gap whose contents are gone")
    divergence: DivergenceTold | None
    gap: GapTold | None

    @classmethod
    def of(cls, replay: Replay) -> ReplayTold:
        return cls.model_validate(replay, from_attributes=True)


@router.post("/runs/{id}/replay", dependencies=[MAY_RUN, OWN_RUN], operation_id="replayRun")
async def replay(id: Id, domain: TheDomain) -> ReplayTold:
    """The session again in a fresh sandbox, with the recorded answers of model, people and hooks, to the first
    difference."""
    return ReplayTold.of(await (await domain.engine.get()).replay(id))
