"""What a waiting machine must have in common with a sandbox to become it."""

from __future__ import annotations

from typing import NamedTuple

from crucible.images.catalog import Image
from crucible.sandbox.spec import SandboxSpec


class Shape(NamedTuple):
    """Everything that is fixed when a machine is restored. What else a sandbox is given comes after that."""

    backend: str
    image: str
    digest: str
    memory_mib: int
    cpus: int
    disk_mib: int

    def spec(self) -> SandboxSpec:
        """Of a machine that waits: nothing but its shape."""
        return SandboxSpec(
            image=self.image,
            memory_mib=self.memory_mib,
            cpus=self.cpus,
            disk_mib=self.disk_mib,
            backend=self.backend,
        )


def shape_of(backend: str, spec: SandboxSpec, image: Image) -> Shape:
    return Shape(backend, spec.image, image.digest, spec.memory_mib, spec.cpus, spec.disk_mib)
