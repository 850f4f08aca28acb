"""The guest's kernel as it lies on disk. How it gets there is `fetching`'s story."""

from __future__ import annotations

from pathlib import Path

from crucible.errors import KernelMissing
from crucible.images import bundle
from crucible.images.bundle import Bundle, BundleDamaged
from crucible.values import dataclass

UNPACKED = "vmlinux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """`modules` are in load order; `digest` changes with any byte of any of the files.

    `unpacked` is the same kernel where it could be taken out of the file it comes in.
    """

    version: str
    vmlinuz: Path
    unpacked: Path | None = None
    modules: tuple[Path, ...]
    digest: str


def load_kernel(home: Path) -> Kernel:
    """The kernel in use. Raises KernelMissing when there is none or a file of it is cut short."""
    return kernel_of(_load(home))


def verify_kernel(home: Path) -> Kernel:
    """Like `load_kernel`, but every byte is compared with the manifest."""
    found = _load(home)
    try:
        bundle.verify(found)
    except BundleDamaged as damage:
        raise KernelMissing(str(damage)) from None
    return kernel_of(found)


def shelf_of(home: Path) -> Path:
    return home / "kernels"


def _load(home: Path) -> Bundle:
    try:
        found = bundle.load_current(shelf_of(home))
    except BundleDamaged as damage:
        raise KernelMissing(str(damage)) from None
    if found is None:
        raise KernelMissing("it has not been fetched yet")
    return found


def kernel_of(found: Bundle) -> Kernel:
    has_unpacked = any(file.name == UNPACKED for file in found.files)
    try:
        return Kernel(
            version=found.fact("version"),
            vmlinuz=found.path / "vmlinuz",
            unpacked=found.path / UNPACKED if has_unpacked else None,
            modules=tuple(found.path / name for name in found.facts_listed("modules")),
            digest=found.digest,
        )
    except BundleDamaged as damage:
        raise KernelMissing(str(damage)) from None
