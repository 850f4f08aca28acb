"""From what a session wishes to the workplace that it gets."""

from __future__ import annotations

from pathlib import Path

from crucible.agent.options import SandboxWish
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.errors import BadSetting
from crucible.sandbox import seeding
from crucible.sandbox.spec import (
    DEFAULT_DISK_MIB,
    DEFAULT_MEMORY_MIB,
    SandboxSpec,
)

# The engine forgets those that a session does not want to keep; these are the most that it may want.
MOST_CHECKPOINTS = 64
# A sandbox that nobody used for so long is stopped, and started again with its files when it is needed.
IDLE_S = 3600.0
_NETWORKS = {"none": "off", "full": "full"}


class SandboxWorkplaces:
    """Workplaces of an engine, all in one sandbox room."""

    def __init__(self, room: SandboxRoom) -> None:
        self._room = room

    def workplace(self, session: str, wish: SandboxWish, *, sandbox: str = "") -> SandboxWorkplace:
        """`sandbox` is the id of the one that the session had; a branch has one that is not called after it."""
        return SandboxWorkplace(
            self._room,
            self._name(session, sandbox),
            wanted_of(wish),
            had_sandbox=bool(sandbox),
        )

    def _name(self, session: str, sandbox: str) -> str:
        if sandbox:
            for record in self._room.manager.records.sandboxes():
                if record.id == sandbox:
                    return record.name
        return name_of(session)


def wanted_of(wish: SandboxWish) -> Wanted:
    """Raises BadSetting or PathRefused for what cannot be."""
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
        checkpoints=MOST_CHECKPOINTS,
    )
