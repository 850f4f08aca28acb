"""From what a session wishes to the workplace that it gets."""

from __future__ import annotations

from pathlib import Path

from crucible.agent.options import SessionOptions
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.errors import BadSetting
from crucible.sandbox import seeding
from crucible.sandbox.spec import (
    DEFAULT_DISK_MIB,
    DEFAULT_MEMORY_MIB,
    SandboxSpec,
)

# A sandbox that nobody used for so long is stopped, and started again with its files when it is needed.
IDLE_S = 3600.0
_NETWORKS = {"none": "off", "full": "full"}


class SandboxWorkplaces:
    """Workplaces of an engine, all in one sandbox room."""

    def __init__(self, room: SandboxRoom) -> None:
        self._room = room

    def check(self, options: SessionOptions) -> None:
        """Raises BadSetting or PathRefused for what no sandbox can be."""
        wanted_of(options)

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        return SandboxWorkplace(
            self._room, name_of(session), wanted_of(options), had_sandbox=had_sandbox
        )


def wanted_of(options: SessionOptions) -> Wanted:
    wish = options.sandbox
    network = _NETWORKS.get(wish.network)
    if network is None:
        raise BadSetting(
            f"The network cannot be {wish.network[:80]!r}",
            hint="Use 'none' or 'full', or name hosts",
        )
    source = wish.directory and str(seeding.check_source(Path(wish.directory)))
    return Wanted(
        spec=SandboxSpec(
            image=wish.image or "base",
            memory_mib=wish.memory_mib or DEFAULT_MEMORY_MIB,
            cpus=wish.cpus or 1,
            disk_mib=wish.disk_mib or DEFAULT_DISK_MIB,
            environment=dict(wish.environment),
            network="allowlist" if wish.hosts else network,
            allow=tuple(wish.hosts),
            idle_timeout_s=IDLE_S,
        ),
        host_directory=source or None,
        checkpoints=options.checkpoints.keep,
    )
