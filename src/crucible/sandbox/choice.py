"""Which backend a sandbox gets: the strongest that works, or exactly the one that was named."""

from __future__ import annotations

from collections.abc import Sequence

from crucible.errors import (
    BackendUnknown,
    BackendUnusable,
    IsolationUnmet,
    PrerequisiteMissing,
)
from crucible.sandbox.backend import Backend, Missing
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.spec import SandboxSpec

AUTO = "auto"


async def choose_backend(
    backends: Sequence[Backend], spec: SandboxSpec
) -> tuple[Backend, Isolation]:
    """`backends` are in order of preference. Never falls below `min_isolation`."""
    if spec.backend != AUTO:
        return await _named(backends, spec)
    best: Isolation | None = None
    reasons = []
    lacking: Missing | None = None
    for backend in backends:
        isolation = await backend.isolation()
        # Without hardware behind it an accelerator is no stronger than emulation, and often broken.
        if not await backend.is_worth_trying():
            continue
        if not isolation.satisfies(spec.min_isolation):
            best = best or isolation
            continue
        missing = await backend.probe()
        if missing is None:
            return backend, isolation
        reasons.append(f"{backend.name}: {missing.what}")
        lacking = missing if missing.is_prerequisite else lacking
    if lacking is not None:
        raise PrerequisiteMissing(lacking.what, hint=lacking.fix)
    if best is not None:
        raise IsolationUnmet(str(spec.min_isolation), str(best))
    raise BackendUnusable(AUTO, "; ".join(reasons) or "there is none")


async def _named(backends: Sequence[Backend], spec: SandboxSpec) -> tuple[Backend, Isolation]:
    by_name = {backend.name: backend for backend in backends}
    backend = by_name.get(spec.backend)
    if backend is None:
        raise BackendUnknown(spec.backend, (AUTO, *by_name))
    isolation = await backend.isolation()
    if not isolation.satisfies(spec.min_isolation):
        raise IsolationUnmet(str(spec.min_isolation), str(isolation))
    missing = await backend.probe()
    if missing is None:
        return backend, isolation
    if missing.is_prerequisite:
        raise PrerequisiteMissing(missing.what, hint=missing.fix)
    raise BackendUnusable(backend.name, missing.what, hint=missing.fix)
