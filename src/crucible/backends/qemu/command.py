"""QEMU's command line for one machine. The same words must make a template and restore it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from crucible.values import dataclass

AGENT_PORT = "crucible.agent"
CONSOLE_BYTES = 65536
ROOT_FDSET = 0
EXCHANGE_FDSET = 1_000_000
# By this mark a descriptor is known through which the disk's top can be written.
WRITABLE_MARK = "writable"
TRANSLATION_MIB = 64
# Ours, and the one that is always kept for a console: each costs queues on both sides.
_PORTS = 2
# How much of a layer's tables is read and kept at a time.
_TABLE_PIECE = 4096
_SECCOMP = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
# Everything the emulator can do, less what costs more than it brings: five levels of page tables,
# and the string instructions that it carries out byte by byte when a program is told they are fast.
_EMULATED_CPU = {"x86_64": "max,-la57,-erms,-fsrm", "aarch64": "max"}
# What an emulated processor would have to translate anew in every copy, and nobody misses; nor the tests of ciphers,
# half of what a kernel does to boot. The last word is no kernel's: it becomes part of the agent's environment.
_KERNEL_WORDS = (
    "panic=-1 quiet mitigations=off random.trust_cpu=on init_on_alloc=0 init_on_free=0 audit=0"
    " lsm=landlock,yama randomize_kstack_offset=off psi=0 nowatchdog cryptomgr.notests"
    " GODEBUG=asyncpreemptoff=1"
)


class Accelerator(StrEnum):
    KVM = "kvm"
    HVF = "hvf"
    TCG = "tcg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    architecture: str
    accelerator: Accelerator
    memory_mib: int
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFiles:
    """What a machine needs only when it is switched on. `tsc_khz` is 0 where it finds out by itself."""

    kernel: Path
    initramfs: Path
    tsc_khz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Descriptors the machine inherits. Disks are lowest layer first; a restore needs no kernel."""

    memory: int
    monitor: int
    agent: int
    root: int
    exchange: int
    disks: Sequence[int]
    kernel: int = -1
    initramfs: int = -1

    def all(self) -> list[int]:
        ends = [self.memory, self.monitor, self.agent, self.root, self.exchange]
        ends += [self.kernel, self.initramfs]
        return [descriptor for descriptor in (*ends, *self.disks) if descriptor >= 0]


def machine_word(sandbox_id: str) -> str:
    """A word of the command line by which a machine without a record can be found."""
    return f"crucible-{sandbox_id}"


def arguments(
    shape: Shape,
    wiring: Wiring,
    *,
    sandbox_id: str,
    boot: BootFiles | None,
    shares_memory: bool,
    is_disposable: bool,
) -> list[str]:
    words = [
        "-name", machine_word(sandbox_id),
        *_machine(shape),
        "-m", f"{shape.memory_mib}M",
        "-smp", str(shape.cpus),
        "-object", _memory(shape, wiring.memory, shares_memory),
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-no-shutdown",
        "-sandbox", _SECCOMP,
        "-chardev", f"ringbuf,id=console,size={CONSOLE_BYTES}",
        "-serial", "chardev:console",
        "-chardev", f"socket,id=monitor,fd={wiring.monitor},server=on,wait=off",
        "-mon", "chardev=monitor,mode=control",
        "-chardev", f"socket,id=agent,fd={wiring.agent},server=on,wait=off",
        "-device", f"{_device(shape, 'virtio-serial')},max_ports={_PORTS}",
        "-device", f"virtserialport,chardev=agent,name={AGENT_PORT}",
    ]  # fmt: skip
    words += _disk_words(shape, wiring, is_disposable=is_disposable)
    if boot is None:
        # What was loaded at boot is in the memory that comes; reading it again costs 10 ms.
        return [*words, "-incoming", "defer"]
    return [
        *words,
        "-kernel", f"/proc/self/fd/{wiring.kernel}",
        "-initrd", f"/proc/self/fd/{wiring.initramfs}",
        "-append", _kernel_words(shape, boot.tsc_khz),
    ]  # fmt: skip


def layer_fdset(number: int) -> int:
    return number + 1


def layer_options(number: int, *, is_top: bool, is_disposable: bool) -> list[dict[str, Any]]:
    """The two block nodes of one disk layer: its file and its format."""
    file: dict[str, Any] = {
        "driver": "file",
        "node-name": f"file-{number}",
        "filename": f"/dev/fdset/{layer_fdset(number)}",
        "read-only": not is_top,
        "auto-read-only": False,
        "cache": {"direct": False, "no-flush": is_disposable},
        "discard": "unmap",
    }
    node: dict[str, Any] = {
        "driver": "raw" if number == 0 else "qcow2",
        "node-name": f"disk-{number}",
        "file": f"file-{number}",
        "read-only": not is_top,
        "discard": "unmap",
        "cache": {"direct": False, "no-flush": is_disposable},
    }
    if number > 0:
        node |= {"backing": f"disk-{number - 1}", "l2-cache-entry-size": _TABLE_PIECE}
    return [file, node]


def _machine(shape: Shape) -> list[str]:
    if shape.architecture == "aarch64":
        machine = "virt,gic-version=max,memory-backend=m0"
    else:
        # Eight places for devices are enough. A second interrupt controller would bring 24, all of them made.
        machine = "microvm,pit=on,pic=on,rtc=on,acpi=on,isa-serial=on,ioapic2=off,memory-backend=m0"
    match shape.accelerator:
        case Accelerator.TCG:
            accelerator, cpu = f"tcg,tb-size={TRANSLATION_MIB}", _EMULATED_CPU[shape.architecture]
        case Accelerator.KVM | Accelerator.HVF:
            accelerator, cpu = str(shape.accelerator), "host"
    return ["-M", machine, "-accel", accelerator, "-cpu", cpu]


def _memory(shape: Shape, descriptor: int, is_shared: bool) -> str:
    share = "on" if is_shared else "off"
    return (
        f"memory-backend-file,id=m0,size={shape.memory_mib}M,"
        f"mem-path=/proc/self/fd/{descriptor},share={share}"
    )


def _kernel_words(shape: Shape, tsc_khz: int) -> str:
    if shape.architecture == "aarch64":
        return f"console=ttyAMA0 {_KERNEL_WORDS}"
    words = f"console=ttyS0 reboot=t nokaslr {_KERNEL_WORDS}"
    if shape.accelerator is Accelerator.TCG:
        # The guest's counter is the host's, and the kernel hangs if it must measure it in software.
        words += f" no_timer_check tsc=reliable tsc_early_khz={tsc_khz} lpj=4000000"
    return words


def _device(shape: Shape, kind: str) -> str:
    return f"{kind}-pci" if shape.architecture == "aarch64" else f"{kind}-device"


def _disk_words(shape: Shape, wiring: Wiring, *, is_disposable: bool) -> list[str]:
    words = ["-add-fd", f"fd={wiring.root},set={ROOT_FDSET}"]
    root = f"/dev/fdset/{ROOT_FDSET}"
    nodes: list[dict[str, Any]] = [
        {"driver": "file", "node-name": "root-file", "filename": root, "read-only": True},
        {"driver": "raw", "node-name": "root", "file": "root-file", "read-only": True},
    ]
    for number, descriptor in enumerate(wiring.disks):
        is_top = number == len(wiring.disks) - 1
        mark = f",opaque={WRITABLE_MARK}" if is_top else ""
        words += ["-add-fd", f"fd={descriptor},set={layer_fdset(number)}{mark}"]
        nodes += layer_options(number, is_top=is_top, is_disposable=is_disposable)
    for node in nodes:
        words += ["-blockdev", json.dumps(node)]
    block = _device(shape, "virtio-blk")
    exchange = EXCHANGE_FDSET
    words += ["-add-fd", f"fd={wiring.exchange},set={exchange}"]
    file = {"driver": "file", "node-name": "exchange-file", "filename": f"/dev/fdset/{exchange}"}
    raw = {"driver": "raw", "node-name": "exchange", "file": "exchange-file"}
    for node in (file, raw):
        words += ["-blockdev", json.dumps({**node, "read-only": True})]
    words += ["-device", f"{block},drive=root"]
    # A host whose disk is full must not stop the machine, which is what QEMU does unless told not to.
    top = f"drive=disk-{len(wiring.disks) - 1},write-cache=on,werror=report,rerror=report"
    words += ["-device", f"{block},{top},id=writable"]
    words += ["-device", f"{block},drive=exchange"]
    return words
