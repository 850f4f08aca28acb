"""Saved machines that no VMM ever saw: small, valid in form, made in a moment."""

from __future__ import annotations

import os
from pathlib import Path

from crucible.backends.qemu import disks, memory, saved
from crucible.backends.qemu.saved import SavedMachine

MEMORY_MIB = 4


def make_saved(
    directory: Path, *, marker: bytes = b"memory", image_digest: str = "i"
) -> SavedMachine:
    """Fills a directory as a template or snapshot would be, manifest last."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = memory.create(MEMORY_MIB << 20)
    os.pwrite(descriptor, marker, 1 << 20)
    memory.save(descriptor, directory / saved.MEMORY_FILE)
    os.close(descriptor)
    (directory / saved.STATE_FILE).write_bytes(b"state" * 100)
    (directory / disks.BLANK_NAME).write_bytes(bytes(1000) + b"blank" + bytes(1 << 20))
    (directory / disks.ROOT_NAME).write_bytes(b"hsqs" + bytes(1000) + b"squash")
    disks.create_layer(directory / "disk-1.qcow2", 256 << 20)
    machine = SavedMachine(
        directory=directory,
        memory_mib=MEMORY_MIB,
        cpus=1,
        accelerator="tcg",
        disk_mib=256,
        kernel_digest="k",
        agent_digest="a",
        image_digest=image_digest,
        vmm="QEMU 0",
    )
    saved.describe(machine)
    return machine
