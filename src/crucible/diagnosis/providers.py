"""Where sandboxes run as this host is set, and what each provider says."""

from __future__ import annotations

from crucible.diagnosis.check import Check, fail, ok, warn
from crucible.errors import CrucibleError
from crucible.sandbox.machines import REMOTE, Machines
from crucible.sandbox.placing import may_be_remote, place
from crucible.sandbox.spec import SandboxSpec


async def check_remote(machines: Machines) -> Check:
    name = f"provider {REMOTE}"
    remote = machines.remote()
    is_wanted = may_be_remote(machines, SandboxSpec())
    if not is_wanted and not await remote.is_worth_trying():
        return ok(name, "not configured, and not wanted")
    missing = await remote.probe()
    if missing is None:
        return ok(
            name, f"the service answers; isolation {await remote.isolation()}, which it claims"
        )
    if machines.provider == REMOTE:
        return fail(name, missing.what, missing.fix)
    return warn(name, missing.what, missing.fix)


async def check_choice(machines: Machines) -> Check:
    """What a sandbox that asks for nothing gets."""
    asked = f"SANDBOX_PROVIDER is {machines.provider}, "
    asked += "with a fallback" if machines.falls_back else "without a fallback"
    try:
        placed = await place(machines, SandboxSpec())
    except CrucibleError as error:
        return fail("provider", f"{asked}: {error.message}", error.hint)
    return ok("provider", f"{asked}: {placed.backend.name} is taken ({placed.why})")
