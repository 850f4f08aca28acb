"""What tools of a session handed over: named by its events, its bytes in the ledger until somebody erases them."""

from __future__ import annotations

from crucible.agent.events import Event
from crucible.agent.facts import ArtifactFacts
from crucible.agent.parts import Parts
from crucible.agent.session import Session
from crucible.agent.transcripts import find_retractions, is_retracted
from crucible.errors import ArtifactErased, ArtifactMissing

_MOST = 10_000


async def find_artifacts(parts: Parts, session: Session) -> tuple[ArtifactFacts, ...]:
    """The oldest first. Those of turns that were taken back are left out."""
    await session.write()
    retractions = await find_retractions(parts.store, session.id)
    found = await parts.store.marks(session.id, "artifact", limit=_MOST)
    return tuple(_facts(one) for one in reversed(found) if not is_retracted(one, retractions))


async def read_artifact(parts: Parts, session: Session, blob: str) -> tuple[ArtifactFacts, bytes]:
    """Raises ArtifactMissing for what this session never handed over, ArtifactErased for what is gone."""
    found = await find_artifacts(parts, session)
    facts = next((one for one in found if one.blob == blob), None)
    if facts is None:
        raise ArtifactMissing(session.id, blob)
    data = await parts.recorder.blob(session.id, blob)
    if data is None:
        raise ArtifactErased(session.id, facts.name)
    return facts, data


def _facts(event: Event) -> ArtifactFacts:
    data = event.data
    return ArtifactFacts(
        blob=str(data["blob"]),
        name=str(data["name"]),
        media_type=str(data["media_type"]),
        size=int(data["size"]),
        turn=event.turn,
        call=str(data["call"]),
    )
