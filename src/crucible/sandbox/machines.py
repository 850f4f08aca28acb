"""Where booted machines come from: a plan goes in, a machine that answers comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import BackendUnknown
from crucible.images.catalog import Image
from crucible.sandbox import admission
from crucible.sandbox.backend import BootPlan, Disk, KeepsMachines, Lifetime, Machine
from crucible.sandbox.identity import new_identity
from crucible.sandbox.records import SandboxRecord


class Machines:
    def __init__(self, backends: Sequence[KeepsMachines]) -> None:
        self.backends = backends
        self._promised_mib = 0

    def backend(self, name: str) -> KeepsMachines:
        for backend in self.backends:
            if backend.name == name:
                return backend
        raise BackendUnknown(name, tuple(backend.name for backend in self.backends))

    async def boot(self, backend: KeepsMachines, plan: BootPlan) -> Machine:
        """Every machine that does not come from a snapshot comes from here."""
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
    )


def hostname_for(name: str) -> str:
    return name.replace("_", "-").replace(".", "-")[:63].strip("-") or "sandbox"
