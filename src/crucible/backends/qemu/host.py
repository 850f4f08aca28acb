"""What this host offers QEMU: its program, its version, its architecture, and the accelerators that work.

A device that opens proves nothing, so the verdict on KVM comes from booting a machine with it, and
is remembered until the host boots again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from crucible.backends.qemu.command import Accelerator
from crucible.backends.qemu.jail import KVM_DEVICE, WRAPPER
from crucible.programs import find_program
from crucible.sandbox.isolation import Isolation
from crucible.values import dataclass

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    architecture: str
    program: str
    version: str
    tsc_khz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`why` is None when the accelerator works."""

    accelerator: Accelerator
    why: str | None


def find_host(cache: Path) -> Host:
    """The QEMU of this machine. Its version is cached by the file's identity: asking costs a start."""
    machine = os.uname().machine
    architecture = {"arm64": "aarch64"}.get(machine, machine)
    name = f"qemu-system-{architecture}"
    program = find_program(name)
    if program is None or find_program(WRAPPER) is None:
        from crucible.system import require

        program = require(name, WRAPPER)[0]
    program = os.path.realpath(program)
    status = Path(program).stat()
    identity = f"{program}:{status.st_size}:{status.st_mtime_ns}"
    facts = _read(cache / "qemu.json")
    if facts.get("identity") != identity:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=30
        )
        facts = {"identity": identity, "version": done.stdout.splitlines()[0].strip()}
        _write(cache / "qemu.json", facts)
    return Host(
        architecture=architecture,
        program=program,
        version=str(facts["version"]),
        tsc_khz=_tsc_khz(cache) if architecture == "x86_64" else 0,
    )


def file_digest(cache: Path, path: Path) -> str:
    """The sha256 of a file, remembered as long as the file's size and time stay the same."""
    status = path.stat()
    identity = f"{path}:{status.st_size}:{status.st_mtime_ns}"
    facts = _read(cache / f"digest-{path.name}.json")
    if facts.get("identity") != identity:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        facts = {"identity": identity, "digest": digest}
        _write(cache / f"digest-{path.name}.json", facts)
    return str(facts["digest"])


def processor_mark(accelerator: Accelerator) -> str:
    """What a saved state depends on beyond QEMU itself: with hardware, the processor's features."""
    if accelerator is Accelerator.TCG:
        return "emulated"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    marks = sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))})
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def has_hardware_virtualization() -> bool:
    """Whether the processor itself says so; a paravirtual KVM device shows up without it."""
    if sys.platform == "darwin":
        return True
    if os.uname().machine in ("aarch64", "arm64"):
        return KVM_DEVICE.exists()
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return any(
        {"vmx", "svm"} & set(line.split())
        for line in flags.splitlines()
        if line.startswith("flags")
    )


def is_plausible(accelerator: Accelerator) -> bool:
    match accelerator:
        case Accelerator.TCG:
            return True
        case Accelerator.HVF:
            return sys.platform == "darwin"
        case Accelerator.KVM:
            return sys.platform == "linux" and has_hardware_virtualization()


def isolation_of(accelerator: Accelerator) -> Isolation:
    if accelerator is Accelerator.TCG or not has_hardware_virtualization():
        return Isolation.SOFTWARE_VM
    return Isolation.HARDWARE_VM


def unusable_device(accelerator: Accelerator) -> str | None:
    if accelerator is Accelerator.HVF:
        return None if sys.platform == "darwin" else "HVF exists on macOS only"
    if not KVM_DEVICE.exists():
        return f"{KVM_DEVICE} does not exist"
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return f"{KVM_DEVICE} may not be opened by this user (join the group `kvm`)"
    return None


def recall(cache: Path, accelerator: Accelerator) -> Verdict | None:
    facts = _read(cache / f"verdict-{accelerator}.json")
    if facts.get("boot") != _boot_id():
        return None
    why = facts.get("why")
    return Verdict(accelerator=accelerator, why=None if why is None else str(why))


def remember(cache: Path, verdict: Verdict) -> None:
    facts: dict[str, object] = {"boot": _boot_id(), "why": verdict.why}
    _write(cache / f"verdict-{verdict.accelerator}.json", facts)


def _tsc_khz(cache: Path) -> int:
    """The rate of the processor's counter, measured once per boot and kept while it is the same."""
    facts = _read(cache / "clock.json")
    known = facts.get("khz")
    if facts.get("boot") == _boot_id() and isinstance(known, int):
        return known
    from crucible.backends.qemu import clock

    khz = clock.steadied(clock.measure_khz() or _shown_khz() or clock.TYPICAL_KHZ, known)
    _write(cache / "clock.json", {"boot": _boot_id(), "khz": khz})
    return khz


def _shown_khz() -> int | None:
    """What the kernel shows of the clock, which under a hypervisor is the rate of the counter."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("cpu MHz"):
                return int(float(line.partition(":")[2]) * 1000)
    return None


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def _read(path: Path) -> dict[str, object]:
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _write(path: Path, facts: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(facts))
    temporary.rename(path)
