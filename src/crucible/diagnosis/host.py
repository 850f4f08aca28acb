"""What the host gives: interpreter, packages, a place for state, namespaces, limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from crucible import programs, system
from crucible.diagnosis.check import Check, fail, ok, warn

_WANTED_PYTHON = (3, 11)
_COMFORTABLE_BYTES = 4 << 30
_NEEDED_BYTES = 1 << 30
_BWRAP_DEADLINE_S = 20.0
_PROC = Path("/proc")


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    found = ".".join(str(part) for part in version)
    if version < _WANTED_PYTHON:
        return fail("python", f"Python {found} is too old", "Use Python 3.11 or newer")
    return ok("python", f"Python {found}")


def check_programs() -> Iterator[Check]:
    """Each package by itself, and one command for all that are missing."""
    if system.machine() not in ("x86_64", "aarch64"):
        yield fail("processor", f"Machines cannot be run on {system.machine()} processors")
    needs = system.needs()
    missing = system.missing(needs)
    command = system.install_command(tuple(need.package for need in missing))
    for need in needs:
        name = f"package {need.package}"
        if need not in missing:
            yield ok(name, need.program or need.file)
        elif system.has_apt():
            yield fail(name, f"{need.program or need.file} is missing; it {need.why}", command)
        else:
            fix = f"Install what brings {need.program or need.file} with your package manager"
            yield fail(name, f"{need.program or need.file} is missing; it {need.why}", fix)


def check_home(home: Path) -> Check:
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return fail(
            "home", f"{place} is not a directory", "Set CRUCIBLE_HOME to a directory of yours"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        fix = "Set CRUCIBLE_HOME to a directory of yours"
        return fail("home", f"{home} cannot be written by this user", fix)
    free = shutil.disk_usage(place).free
    finding = f"{home}, {free / 1e9:.1f} GB free"
    if free < _NEEDED_BYTES:
        return fail("home", f"{finding}; 1 GB is the least", "Free space, or move CRUCIBLE_HOME")
    if free < _COMFORTABLE_BYTES:
        return warn("home", f"{finding}; sandboxes may fill it", "`crucible system prune`")
    return ok("home", finding)


def check_namespaces(uid: int | None = None, *, proc: Path = _PROC) -> Check:
    """Really makes all namespaces with bubblewrap, as that user when we are root and it is given."""
    name = "namespaces" if uid is None else "namespaces as another user"
    bwrap = programs.find_program("bwrap")
    if bwrap is None:
        return fail(name, "bubblewrap is not there to make them", _install("bubblewrap"))
    said = _try_namespaces(bwrap, uid)
    if said is None:
        return ok(name, "bubblewrap can unshare all of them")
    return fail(name, f"bubblewrap cannot unshare them: {said}", _namespace_fix(proc))


def check_limits() -> Check:
    from crucible.backends.qemu.limits import describe

    found = describe()
    if found.startswith("rlimits"):
        fix = "Run as root, or in a systemd user session with delegated controllers, for limits by cgroup"
        return warn("limits", found, fix)
    return ok("limits", found)


def _try_namespaces(bwrap: str, uid: int | None) -> str | None:
    """None when it worked, else the last thing bubblewrap said."""
    argv = [bwrap, "--unshare-all", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--", "true"]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_BWRAP_DEADLINE_S,
            cwd="/",
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {_BWRAP_DEADLINE_S:g} s"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"it ended with status {done.returncode}"


def _namespace_fix(proc: Path) -> str:
    kernel = proc / "sys/kernel"
    if _reads(kernel / "apparmor_restrict_unprivileged_userns") == "1":
        return (
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            " (Ubuntu; or give bwrap an AppArmor profile that allows userns)"
        )
    if _reads(kernel / "unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if _reads(proc / "sys/user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000"
    return "If this is a container, start it so that it may make user namespaces"


def _install(package: str) -> str:
    return system.install_command((package,))


def _reads(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
