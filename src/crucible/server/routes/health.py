"""Whether this server is there, and whether it can be used. No token is needed to ask."""

from __future__ import annotations

from fastapi import APIRouter, Response

from crucible.server.auth import TheDomain
from crucible.server.models.base import Told

router = APIRouter(tags=["health"])


class Health(Told):
    status: str


class Alive(Health):
    """With the two fields in which agentkernel's clients look for it."""

    success: bool = True
    data: str = "ok"


@router.get("/health", operation_id="health")
async def health() -> Alive:
    return Alive(status="ok")


@router.get("/ready", operation_id="ready", responses={503: {"model": Health}})
async def ready(domain: TheDomain, response: Response) -> Health:
    """503 while machines are being taken over, and when the server is leaving."""
    if not domain.is_ready:
        response.status_code = 503
        return Health(status="not ready")
    return Health(status="ready")
