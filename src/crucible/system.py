"""What Crucible needs from the host's own packages, and which of it is missing.

Importable before Crucible is installed: the quickstart begins with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import PrerequisiteMissing
from crucible.programs import find_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One host package, and what tells that it is there: a program or, for data, a file."""

    package: str
    program: str = ""
    file: str = ""
    why: str


_QEMU: Mapping[str, Need] = {
    "x86_64": Need(
        package="qemu-system-x86", program="qemu-system-x86_64", why="runs the machines"
    ),
    "aarch64": Need(
        package="qemu-system-arm", program="qemu-system-aarch64", why="runs the machines"
    ),
}

_EVERYWHERE = (
    Need(package="qemu-utils", program="qemu-img", why="makes disks"),
    Need(package="bubblewrap", program="bwrap", why="jails the machines"),
    Need(package="e2fsprogs", program="mkfs.ext4", why="formats disks"),
    Need(package="mmdebstrap", program="mmdebstrap", why="builds the base image"),
    Need(package="squashfs-tools", program="sqfstar", why="packs the base image"),
    Need(package="uidmap", program="newuidmap", why="lets an ordinary user build images"),
    Need(
        package="ca-certificates",
        file="/etc/ssl/certs/ca-certificates.crt",
        why="lets downloads be trusted",
    ),
)

# What only the tests ask of the host.
FOR_TESTS = (
    # Chromium without its windows: it draws the same pages in half of the time.
    Need(
        package="chromium-headless-shell",
        program="chromium-headless-shell",
        why="is a browser to see the pages in",
    ),
    Need(package="cpio", program="cpio", why="reads the first filesystem of a machine back"),
    Need(package="git", program="git", why="takes the diffs that are shown"),
    Need(package="procps", program="ps", why="shows what commands other users can see"),
    Need(package="curl", program="curl", why="is a client that a network has to carry"),
    Need(package="iproute2", program="ip", why="makes a network for tests to reach"),
    Need(package="docker-registry", program="docker-registry", why="is a registry to pull from"),
    Need(package="openssl", program="openssl", why="makes certificates for that registry"),
    Need(package="squashfs-tools-ng", program="sqfs2tar", why="reads back what we packed"),
    Need(package="busybox-static", program="busybox", why="makes a small image"),
    Need(package="openssh-client", program="ssh", why="reaches a worker"),
    Need(package="openssh-server", program="sshd", why="is a worker to reach"),
    Need(package="musl-tools", program="musl-gcc", why="makes a program with another resolver"),
    Need(
        package="postgresql", program="pg_ctlcluster", why="is a database to reach, and its client"
    ),
)

_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def machine() -> str:
    """The host's processor as QEMU and the kernel name it: `x86_64`, `aarch64` or another."""
    name = os.uname().machine.lower()
    return _ALIASES.get(name, name)


def distribution(os_release: Path = Path("/etc/os-release")) -> tuple[str, ...]:
    """The distribution's identifier, then those it says it is like: `("ubuntu", "debian")`."""
    try:
        lines = os_release.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    names = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "")
    return tuple(names.split())


def has_apt() -> bool:
    return "debian" in distribution() and find_program("apt-get") is not None


def needs(processor: str | None = None) -> tuple[Need, ...]:
    """Everything Crucible wants from the host, under the names Debian and Ubuntu give it."""
    qemu = _QEMU.get(processor or machine())
    return (*((qemu,) if qemu else ()), *_EVERYWHERE)


def missing(
    wanted: tuple[Need, ...] | None = None, *, is_present: Callable[[Need], bool] | None = None
) -> tuple[Need, ...]:
    found = is_present or _is_present
    return tuple(need for need in (needs() if wanted is None else wanted) if not found(need))


def require(*programs: str) -> tuple[str, ...]:
    """Where each of them is. Raises PrerequisiteMissing with the one command that brings all that lack."""
    found = [find_program(name) for name in programs]
    lacking = tuple(name for name, path in zip(programs, found, strict=True) if path is None)
    if not lacking:
        return tuple(path for path in found if path is not None)
    listed = " and ".join(lacking)
    hint = f"Install what brings {listed} with your package manager"
    if has_apt():
        hint = f"Run `{install_command(tuple(map(package_of, lacking)))}`"
    raise PrerequisiteMissing(
        f"{listed} {'is' if len(lacking) == 1 else 'are'} not installed", hint=hint
    )


def install_command(packages: tuple[str, ...]) -> str:
    """The one command a person runs to install these."""
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get install -y --no-install-recommends {' '.join(packages)}"


def package_of(program: str) -> str:
    """The package that brings a program; its own name where that is not known."""
    for need in needs():
        if need.program == program:
            return need.package
    return program


def _is_present(need: Need) -> bool:
    if need.program:
        return find_program(need.program) is not None
    return Path(need.file).exists()
