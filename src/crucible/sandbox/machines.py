"""Where booted machines come from: a plan goes in, a machine that answers comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crucible.config import Provider
from crucible.errors import BackendUnknown, Unsupported
from crucible.images.catalog import Image
from crucible.sandbox import admission
from crucible.sandbox.backend import (
    Backend,
    BootPlan,
    Disk,
    KeepsElsewhere,
    KeepsMachines,
    Lifetime,
    Machine,
    RemoteBackend,
)
from crucible.sandbox.identity import new_identity
from crucible.sandbox.records import SandboxRecord

REMOTE = "remote_e2b"


class Machines:
    """`backends` are those of this host, strongest first. `remote` makes the one elsewhere when it is first needed.

    `provider` and `falls_back` hold for a sandbox that does not say itself where it wants to run.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        remote: Callable[[], RemoteBackend] | None = None,
        provider: Provider = "auto",
        falls_back: bool = False,
    ) -> None:
        self.backends = backends
        self.provider = provider
        self.falls_back = falls_back
        self._make_remote = remote
        self._remote: RemoteBackend | None = None
        self._promised_mib = 0

    def backend(self, name: str) -> Backend:
        for backend in self.backends:
            if backend.name == name:
                return backend
        if name == REMOTE:
            return self.remote()
        raise BackendUnknown(name, self.names())

    def remote(self) -> RemoteBackend:
        if self._remote is None:
            if self._make_remote is None:
                raise BackendUnknown(REMOTE, self.names())
            self._remote = self._make_remote()
        return self._remote

    def names(self) -> tuple[str, ...]:
        own = tuple(backend.name for backend in self.backends)
        return own if self._make_remote is None else (*own, REMOTE)

    async def boot(self, backend: Backend, plan: BootPlan) -> Machine:
        """Every machine that does not come from a snapshot comes from here."""
        if is_elsewhere(backend):
            return await backend.boot(plan)
        with self._promised(plan.memory_mib):
            return await backend.boot(plan)

    async def restore(self, backend: KeepsMachines, plan: BootPlan, snapshot: Path) -> Machine:
        with self._promised(plan.memory_mib):
            return await backend.restore(plan, snapshot)

    def admit(self, memory_mib: int) -> None:
        """Raises NotEnoughMemory if the host could not carry one more machine of that size."""
        admission.admit(memory_mib, self._promised_mib)

    @contextmanager
    def _promised(self, memory_mib: int) -> Iterator[None]:
        """Until a machine has taken what it takes at once, others must not be promised the same."""
        self.admit(memory_mib)
        self._promised_mib += admission.FRESH_MIB
        try:
            yield
        finally:
            self._promised_mib -= admission.FRESH_MIB


def is_elsewhere(backend: Backend) -> bool:
    """Whether its machines need none of this host's memory and users, and its isolation is somebody's word."""
    return backend.is_remote or isinstance(backend, KeepsElsewhere)


def copying(backend: Backend) -> KeepsMachines:
    """The same backend, if its machines can be copied."""
    if isinstance(backend, KeepsMachines):
        return backend
    raise Unsupported(
        f"Backend {backend.name!r} has no snapshots and forks", hint="Machines of this host have"
    )


def plan_for(record: SandboxRecord, image: Image, *, lifetime: Lifetime, disk: Disk) -> BootPlan:
    return BootPlan(
        sandbox_id=record.id,
        name=record.name,
        directory=record.directory,
        image=image,
        memory_mib=record.spec.memory_mib,
        cpus=record.spec.cpus,
        disk_mib=record.spec.disk_mib,
        identity=new_identity(hostname_for(record.name)),
        lifetime=lifetime,
        disk=disk,
        host_uid=record.host_uid,
        has_network=record.spec.network != "off",
    )


def hostname_for(name: str) -> str:
    return name.replace("_", "-").replace(".", "-")[:63].strip("-") or "sandbox"
