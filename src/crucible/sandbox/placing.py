"""Where a sandbox runs: in a machine of this host, or at the remote provider; and the reason, which is kept with it.

Nothing goes elsewhere that did not ask for it, and nothing that a user got wrong is tried elsewhere.
"""

from __future__ import annotations

from crucible.errors import (
    BackendUnusable,
    CrucibleError,
    IsolationUnmet,
    PrerequisiteMissing,
    Unsupported,
)
from crucible.sandbox.backend import Backend, RemoteBackend
from crucible.sandbox.choice import AUTO, choose_backend
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.machines import REMOTE, Machines, is_elsewhere
from crucible.sandbox.spec import SandboxSpec
from crucible.values import dataclass

LOCAL = "local_microvm"
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`isolation` is the label that is written down: a boundary that we cannot see for ourselves is a claim."""

    backend: Backend
    isolation: str
    why: str


async def place(machines: Machines, spec: SandboxSpec) -> Placement:
    elsewhere = await place_elsewhere(machines, spec)
    return elsewhere or await place_here(machines, spec)


async def place_here(machines: Machines, spec: SandboxSpec) -> Placement:
    backend, isolation = await choose_backend(machines.backends, spec)
    how = "it was asked for" if spec.backend != AUTO else "the strongest machine that works here"
    if is_elsewhere(backend):
        claim = f"{isolation} (claimed)"
        return Placement(backend=backend, isolation=claim, why=f"{LOCAL}: on the worker")
    return Placement(backend=backend, isolation=str(isolation), why=f"{LOCAL}: {how}")


async def place_elsewhere(
    machines: Machines, spec: SandboxSpec, *, takes_directory: bool = False
) -> Placement | None:
    """The remote provider, if that is where this sandbox goes; None if a machine of ours is to be used."""
    if not may_be_remote(machines, spec):
        return None
    if is_for_remote(machines, spec):
        return await _remote(machines, spec, f"{REMOTE}: it was asked for", takes_directory)
    try:
        await choose_backend(machines.backends, spec)
    except (PrerequisiteMissing, BackendUnusable) as error:
        return await place_instead(machines, spec, error, takes_directory=takes_directory)
    return None


async def place_instead(
    machines: Machines,
    spec: SandboxSpec,
    failed: CrucibleError,
    *,
    takes_directory: bool = False,
) -> Placement:
    """The remote after machines of ours failed, if the sandbox may go there; else the failure is raised."""
    if is_for_remote(machines, spec) or not may_be_remote(machines, spec):
        raise failed
    why = f"{REMOTE}: no machine works here: {failed.message[:_LONGEST_REASON]}"
    try:
        return await _remote(machines, spec, why, takes_directory)
    except CrucibleError as error:
        raise BackendUnusable(
            AUTO,
            f"{failed.message}; nor does {REMOTE}: {error.message}",
            hint=failed.hint or error.hint,
        ) from error


def may_be_remote(machines: Machines, spec: SandboxSpec) -> bool:
    """Cheap: most sandboxes cannot, and pay nothing for those that can."""
    return is_for_remote(machines, spec) or (spec.backend == AUTO and _falls_back(machines, spec))


def is_for_remote(machines: Machines, spec: SandboxSpec) -> bool:
    if spec.backend != AUTO:
        return spec.backend == REMOTE
    return (spec.provider or machines.provider) == REMOTE


def _falls_back(machines: Machines, spec: SandboxSpec) -> bool:
    if spec.fallback:
        return spec.fallback == "remote"
    return spec.provider == "auto" or (not spec.provider and machines.falls_back)


async def _remote(
    machines: Machines, spec: SandboxSpec, why: str, takes_directory: bool
) -> Placement:
    remote = machines.remote()
    refuse_unkept(remote, spec, takes_directory=takes_directory)
    isolation = await remote.isolation()
    label = f"{isolation} (claimed)"
    # A claim is enough for the usual demand, and not for who asks for the strongest there is.
    if not isolation.satisfies(spec.min_isolation) or spec.min_isolation is Isolation.HARDWARE_VM:
        raise IsolationUnmet(str(spec.min_isolation), label)
    missing = await remote.probe()
    if missing is not None and missing.is_prerequisite:
        raise PrerequisiteMissing(missing.what, hint=missing.fix)
    if missing is not None:
        raise BackendUnusable(remote.name, missing.what, hint=missing.fix)
    return Placement(backend=remote, isolation=label, why=why)


def refuse_unkept(remote: RemoteBackend, spec: SandboxSpec, *, takes_directory: bool) -> None:
    """By name, before anything is made."""
    if takes_directory:
        raise Unsupported(
            f"Backend {remote.name!r} takes no copy of a directory of this host",
            hint="Run it without --dir, or in a machine of this host: --provider local_microvm",
        )
    remote.check(spec)
