"""Which backends work here, proven by booting a machine with each, and what their isolation is worth."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crucible.diagnosis.check import Check, fail, ok, warn
from crucible.errors import CrucibleError
from crucible.sandbox.isolation import Isolation

KVM_DEVICE = Path("/dev/kvm")
_NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts")

WORTH = {
    Isolation.HARDWARE_VM: (
        "a kernel of its own behind the processor's virtualization: the strongest boundary there is here"
    ),
    Isolation.SOFTWARE_VM: (
        "a kernel of its own on an emulated processor. QEMU makes no security promise for emulation,"
        " so the machine is jailed as well: a guest that breaks out of QEMU is still an unprivileged,"
        " confined process"
    ),
}


class BootsOnTrial(Protocol):
    """The part of a backend that a diagnosis needs."""

    @property
    def name(self) -> str: ...
    async def isolation(self) -> Isolation: ...
    async def try_boot(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`why` is None when a machine booted."""

    backend: str
    isolation: Isolation
    seconds: float
    why: str | None


def check_kvm_device(device: Path = KVM_DEVICE, *, has_hardware: bool = True) -> Check:
    """Only what can be seen without a machine: a device that opens may still not work."""
    if not device.exists():
        finding = f"{device} does not exist: machines run on an emulated processor, which is slower"
        return warn(
            "kvm", finding, "Enable virtualization in the firmware, or nested virtualization"
        )
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        finding = f"{device} exists, but this user may not open it"
        return warn("kvm", finding, "sudo usermod -aG kvm $USER, then log in again")
    except OSError as error:
        return warn("kvm", f"{device} exists, but does not open: {error.strerror}")
    if not has_hardware:
        finding = f"{device} opens, but the processor shows no virtualization of its own behind it"
        return warn("kvm", finding)
    return ok("kvm", f"{device} opens, and the processor has virtualization")


async def try_backend(backend: BootsOnTrial) -> Trial:
    """Boots a machine with it, whatever is remembered of earlier trials."""
    began = time.perf_counter()
    try:
        why = await backend.try_boot()
    except CrucibleError as error:
        why = error.message
    return Trial(
        backend=backend.name,
        isolation=await backend.isolation(),
        seconds=time.perf_counter() - began,
        why=None if why is None else "; ".join(why.split("\n")),
    )


def check_backends(trials: Sequence[Trial]) -> list[Check]:
    """A backend that does not work is a failure only if no other does."""
    works = any(trial.why is None for trial in trials)
    return [_check_trial(trial, works=works) for trial in trials]


def check_isolation(trials: Sequence[Trial]) -> Check:
    working = [trial.isolation for trial in trials if trial.why is None]
    if not working:
        return fail(
            "isolation", "No backend works, so there is none to give", "Mend what failed above"
        )
    best = next(label for label in Isolation if label in working)
    return ok("isolation", f"{best}: {WORTH[best]}")


def check_jail(pid: int, *, proc: Path = Path("/proc")) -> Check:
    """What really holds the process of a running machine, read from the kernel."""
    try:
        status = _status_fields(proc / str(pid) / "status")
    except OSError as error:
        return fail("jail", f"The machine's process cannot be examined: {error.strerror}")
    uid = int(status.get("Uid", "0").split()[0])
    shared = [name for name in _NAMESPACES if _is_shared(proc, pid, name)]
    parts = {
        "no new privileges": status.get("NoNewPrivs") == "1",
        "seccomp": status.get("Seccomp") == "2",
        "no capabilities": int(status.get("CapEff", "1"), 16) == 0,
        f"own {', '.join(_NAMESPACES)} namespaces": not shared,
    }
    if os.getuid() == 0:
        parts[f"a user of its own (uid {uid})"] = uid != 0
    else:
        parts["your own user (only root can give each sandbox another)"] = True
    lacking = [part for part, is_there in parts.items() if not is_there]
    if lacking:
        return fail("jail", f"Not in force: {'; '.join(lacking)}", "Do not run untrusted code here")
    return ok("jail", "; ".join(parts))


def _check_trial(trial: Trial, *, works: bool) -> Check:
    name = f"backend {trial.backend}"
    if trial.why is None:
        return ok(name, f"booted a machine in {trial.seconds:.1f} s; {trial.isolation}")
    if works:
        return warn(name, f"no machine runs with it (tried for {trial.seconds:.1f} s): {trial.why}")
    return fail(
        name, f"no machine runs with it: {trial.why}", "Run `crucible setup`, then this again"
    )


def _status_fields(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _is_shared(proc: Path, pid: int, name: str) -> bool:
    try:
        theirs = (proc / str(pid) / "ns" / name).readlink()
    except OSError:
        return True  # what cannot be seen is not claimed
    return theirs == (proc / "self" / "ns" / name).readlink()
