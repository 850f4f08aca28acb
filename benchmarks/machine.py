"""This machine, as far as it matters for what is measured on it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.place import Place
from crucible import assemble
from crucible.backends.qemu.host import find_host
from crucible.images.kernel import load_kernel
from crucible.sandbox.choice import choose_backend
from crucible.sandbox.spec import SandboxSpec


async def describe(place: Place) -> dict[str, str]:
    backend, isolation = await choose_backend(assemble.backends(place.config), SandboxSpec())
    return {
        "processors": f"{os.cpu_count()} ({_processor()})",
        "memory": f"{_memory_gib():.1f} GiB",
        "kernel": platform.release(),
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "python": platform.python_version(),
        "qemu": find_host(place.home / "cache").version,
        "guest kernel": load_kernel(place.home).version,
        "backend": backend.name,
        "isolation": str(isolation),
        "podman": _version("podman"),
        "started as": "root" if os.geteuid() == 0 else "an ordinary user",
        "sandbox": f"{SandboxSpec().memory_mib} MiB, {SandboxSpec().cpus} processor",
        "load at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / (1 << 20)
    return 0.0


def _version(program: str) -> str:
    if shutil.which(program) is None:
        return "not installed"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not usable"
