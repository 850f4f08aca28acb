"""Fetches the guest's kernel: the distribution's own, downloaded and unpacked, never installed on the host."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from crucible.errors import BuildFailed, KernelMissing
from crucible.images import bundle, modules
from crucible.images.apt import Apt, open_apt
from crucible.images.commands import output_of
from crucible.images.kernel import UNPACKED, Kernel, kernel_of, load_kernel, shelf_of
from crucible.images.lock import held
from crucible.images.report import Report
from crucible.images.unpacking import unpacked
from crucible.system import machine

_STAGE = "kernel"
# The first one that the host's sources know is taken. Debian's, then Ubuntu's.
_PACKAGES = {
    "x86_64": ("linux-image-cloud-amd64", "linux-image-kvm", "linux-image-virtual"),
    "aarch64": ("linux-image-cloud-arm64", "linux-image-virtual"),
}
_VERSIONED = re.compile(r"\b(linux-image-(?:unsigned-)?(\d[0-9A-Za-z.+~-]*))")


def fetch_kernel(home: Path, *, report: Report) -> Kernel:
    """The kernel in use; fetched first where there is none or it is damaged. Safe to call at once from many."""
    shelf = shelf_of(home)
    with held(home / "locks" / "kernel", stage=_STAGE, report=report):
        try:
            return load_kernel(home)
        except KernelMissing:
            pass
        with bundle.workplace(shelf) as work:
            content = work / "kernel"
            version = _unpack(work, content, report)
            names = tuple(sorted(f"modules/{path.name}" for path in content.glob("modules/*")))
            report(_STAGE, f"Linux {version} with {len(names)} modules")
            facts: bundle.Facts = {"version": version, "modules": names}
            return kernel_of(bundle.publish(content, shelf, facts=facts, name=version))


def _unpack(work: Path, content: Path, report: Report) -> str:
    """Downloads the packages and lays `vmlinuz`, unpacked too, and the modules out in `content`."""
    apt = open_apt(work / "apt", report=report, stage=_STAGE)
    image, version = _newest_image(apt)
    tree = work / "tree"
    for package in (image, f"linux-modules-{version}"):
        if package != image and not apt.knows(package):
            continue  # Debian's image package holds its modules; Ubuntu has a package for them.
        report(_STAGE, f"downloading {package}")
        output_of(["dpkg-deb", "-x", str(apt.download(package, work)), str(tree)])
    content.mkdir()
    packed = shutil.copyfile(tree / "boot" / f"vmlinuz-{version}", content / "vmlinuz")
    if kernel := unpacked(packed.read_bytes()):
        (content / UNPACKED).write_bytes(kernel)
    report(_STAGE, "choosing the modules the guest needs")
    (content / "modules").mkdir()
    chosen = modules.collect(_modules_tree(tree, version), machine())
    for number, (name, data) in enumerate(chosen.items()):
        (content / "modules" / f"{number:02}-{name}.ko").write_bytes(data)
    return version


def _newest_image(apt: Apt) -> tuple[str, str]:
    """The package that the distribution's "newest kernel" package depends on, and its version."""
    for package in _PACKAGES.get(machine(), ()):
        if not apt.knows(package):
            continue
        found = _VERSIONED.search(apt.field(package, "Depends"))
        if found is not None:
            return found.group(1), found.group(2)
    raise BuildFailed(
        f"No kernel package for {machine()} is known to this host's package sources",
        hint="Run `apt-cache policy linux-image-cloud-amd64` to see what apt knows",
    )


def _modules_tree(tree: Path, version: str) -> Path:
    for parent in ("lib/modules", "usr/lib/modules"):
        if (tree / parent / version).is_dir():
            return tree / parent / version
    raise BuildFailed(f"The kernel package holds no modules for {version}")
