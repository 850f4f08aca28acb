"""Whether a sandbox answers, and what it uses."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter

from crucible.server.auth import MAY_READ, TheDomain
from crucible.server.models.base import Name

router = APIRouter(prefix="/sandboxes/{name}/execd")


@router.get("/ping", dependencies=[MAY_READ])
async def ping(name: Name, domain: TheDomain) -> dict[str, str]:
    domain.manager.running(name)
    return {"status": "ok"}


@router.get("/metrics", dependencies=[MAY_READ])
async def metrics(name: Name, domain: TheDomain) -> dict[str, Any]:
    """The share of its processors is that since it started."""
    held = domain.manager.running(name)
    stats = await held.machine.stats()
    cpus = held.record.spec.cpus
    share = stats.cpu_s / (stats.uptime_s * cpus) if stats.uptime_s else 0.0
    return {
        "cpu_count": float(cpus),
        "cpu_used_pct": round(min(1.0, share) * 100, 2),
        "mem_total_mib": stats.memory_total / (1 << 20),
        "mem_used_mib": (stats.memory_total - stats.memory_available) / (1 << 20),
        "timestamp": round(time.time() * 1000),
    }
