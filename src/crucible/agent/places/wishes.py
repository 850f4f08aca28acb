"""From what a session wishes for to the sandbox that it works in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crucible.accounts.scopes import session_scope, user_scope
from crucible.agent.options import SandboxWish, SessionOptions
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.errors import BadSetting
from crucible.sandbox import seeding
from crucible.sandbox.spec import SandboxSpec
from crucible.values import replace

# A sandbox that nobody used for so long is stopped, and started again with its files when it is needed.
IDLE_S = 3600.0
_MODES = {"none": "off", "full": "full"}


class SandboxPlaces:
    """Gives each session its workplace: a sandbox of its own, called after it."""

    def __init__(self, room: SandboxRoom) -> None:
        self._room = room

    def check(self, options: SessionOptions) -> None:
        """Raises BadSetting or PathRefused for what no sandbox can be."""
        spec_of(options.sandbox)
        if options.sandbox.directory:
            seeding.check_source(Path(options.sandbox.directory))

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        # Its directory is not looked at again: a sandbox that has its copy needs it no more.
        wanted = wanted_of(options, charges_of(session, options))
        return SandboxWorkplace(self._room, name_of(session), wanted, had_sandbox=had_sandbox)


def wanted_of(options: SessionOptions, charges: tuple[str, ...] = ()) -> Wanted:
    source = options.sandbox.directory
    return Wanted(
        spec=replace(spec_of(options.sandbox), charges=charges),
        host_directory=str(Path(source).resolve()) if source else None,
        checkpoints=options.checkpoints.keep,
    )


def charges_of(session: str, options: SessionOptions) -> tuple[str, ...]:
    """What programs in the sandbox spend on calls of models counts for the session and its user, whose plan may limit
    it even where the session has no budget."""
    return session_scope(session), user_scope(options.user)


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
    return SandboxSpec(
        network=mode,
        allow=tuple(wish.hosts),
        environment=dict(wish.environment),
        idle_timeout_s=IDLE_S,
        provider=wish.provider,
        fallback=wish.fallback,
        **fields,
    )
