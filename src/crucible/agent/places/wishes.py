"""From what a session wishes for to the sandbox that it works in."""

from __future__ import annotations

from typing import Any

from crucible.agent.options import SandboxWish, SessionOptions
from crucible.agent.places.opening import SandboxRoom, Wanted
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.errors import BadSetting
from crucible.sandbox.spec import SandboxSpec

_MODES = {"none": "off", "full": "full"}


class SandboxPlaces:
    """Gives each session its workplace: a sandbox of its own."""

    def __init__(self, room: SandboxRoom) -> None:
        self._room = room

    def check(self, options: SessionOptions) -> None:
        spec_of(options.sandbox)

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        wanted = Wanted(
            spec=spec_of(options.sandbox),
            host_directory=options.sandbox.directory or None,
            checkpoints=options.checkpoints.keep,
        )
        return SandboxWorkplace(self._room, session, wanted, had_sandbox=had_sandbox)


def spec_of(wish: SandboxWish) -> SandboxSpec:
    """Raises BadSetting for what the sandbox room cannot give."""
    mode = _MODES.get(wish.network)
    if mode is None:
        raise BadSetting(f"The network cannot be {wish.network[:80]!r}", hint="Use none or full")
    sizes = {"memory_mib": wish.memory_mib, "cpus": wish.cpus, "disk_mib": wish.disk_mib}
    fields: dict[str, Any] = {name: value for name, value in sizes.items() if value}
    if wish.image:
        fields["image"] = wish.image
    if wish.hosts and mode == "off":
        mode = "allowlist"
    return SandboxSpec(network=mode, allow=wish.hosts, environment=dict(wish.environment), **fields)
