"""Which of a kernel's files a machine is started from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from crucible.backends.qemu.command import Accelerator
from crucible.backends.qemu.foundry import Foundry
from crucible.backends.qemu.host import Host
from crucible.backends.qemu.shelf import MemoryShelf
from crucible.images.kernel import Kernel


@pytest.mark.parametrize(
    "accelerator, has_unpacked, started",
    [
        (Accelerator.TCG, True, "vmlinux"),
        (Accelerator.TCG, False, "vmlinuz"),
        (Accelerator.KVM, True, "vmlinuz"),
        (Accelerator.HVF, True, "vmlinuz"),
    ],
)
def test_an_emulated_machine_starts_from_the_unpacked_kernel(
    tmp_path: Path, accelerator: Accelerator, has_unpacked: bool, started: str
) -> None:
    (tmp_path / "agent").write_bytes(b"agent")
    foundry = Foundry(
        host=cast(Host, SimpleNamespace(tsc_khz=2_000_000)),
        accelerator=accelerator,
        kernel=Kernel(
            version="6.1",
            vmlinuz=tmp_path / "vmlinuz",
            unpacked=tmp_path / "vmlinux" if has_unpacked else None,
            modules=(),
            digest="d" * 64,
        ),
        home=tmp_path,
        agent=tmp_path / "agent",
        agent_digest="a" * 64,
        shelf=MemoryShelf(),
    )
    assert foundry._boot_files().kernel == tmp_path / started
