"""Memory, processor and process limits of one VMM by cgroup v2 or v1 where the host allows it.

Where it does not, the jail's rlimits are all there is; `doctor` says which is in force. A group lies below
the cgroup of the process that made it, which need not be that of the process that must remove it: so where
it lies is written down in the sandbox's directory first.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from crucible.values import dataclass

CGROUP_ROOT = Path("/sys/fs/cgroup")
GROUP_PREFIX = "crucible-"
RECORD_NAME = "limits"
_LARGEST_RECORD = 1 << 16
_CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    memory_bytes: int
    cpus: int
    pids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsGroup:
    """The directories one VMM's processes are put into. Empty when the host allows none."""

    directories: tuple[Path, ...]

    def admit(self, *pids: int) -> None:
        """Puts processes into the group. Slow: the kernel first waits until no process is just forking."""
        for directory in self.directories:
            for pid in pids:
                # One that has ended meanwhile needs no limits.
                with contextlib.suppress(ProcessLookupError):
                    (directory / "cgroup.procs").write_text(str(pid))

    def oom_kills(self) -> int:
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (directory / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def remove(self) -> None:
        for directory in self.directories:
            _remove_group(directory)


def make_group(sandbox_id: str, caps: Caps, directory: Path) -> LimitsGroup:
    """`directory` is the sandbox's own, where its group is found again."""
    places = [
        (parent / f"{GROUP_PREFIX}{sandbox_id}", controllers)
        for parent, controllers in _writable_parents()
    ]
    if places:
        (directory / RECORD_NAME).write_bytes(b"".join(os.fsencode(p) + b"\0" for p, _ in places))
    made: list[Path] = []
    for place, controllers in places:
        try:
            place.mkdir(exist_ok=True)
            _write_caps(place, controllers, caps)
            made.append(place)
        except OSError:
            with contextlib.suppress(OSError):
                place.rmdir()
    return LimitsGroup(directories=tuple(made))


def find_group(sandbox_id: str, directory: Path) -> LimitsGroup:
    """Wherever it is; empty if there is none."""
    name = f"{GROUP_PREFIX}{sandbox_id}"
    here = [parent / name for parent, _ in _writable_parents()]
    places = dict.fromkeys((*_recorded(directory, name), *here))
    return LimitsGroup(directories=tuple(place for place in places if place.is_dir()))


def forget_group(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / RECORD_NAME).unlink()


def _recorded(directory: Path, name: str) -> list[Path]:
    """What is written down, as far as it can be a group of that name."""
    try:
        with (directory / RECORD_NAME).open("rb") as file:
            data = file.read(_LARGEST_RECORD)
    except OSError:
        return []
    places = [Path(os.fsdecode(part)) for part in data.split(b"\0")[:-1]]
    return [
        place
        for place in places
        if place.name == name and place.is_relative_to(CGROUP_ROOT) and ".." not in place.parts
    ]


def describe() -> str:
    """What is in force on this host, for `doctor`."""
    parents = _writable_parents()
    if not parents:
        return "rlimits only: no cgroup of this host is writable for us"
    names = sorted({name for _, controllers in parents for name in controllers})
    version = "v2" if (parents[0][0] / "cgroup.controllers").exists() else "v1"
    return f"cgroup {version}: {', '.join(names)}"


def _writable_parents() -> list[tuple[Path, frozenset[str]]]:
    wanted = frozenset({"memory", "cpu", "pids"})
    parents: list[tuple[Path, frozenset[str]]] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, names, path = line.split(":", 2)
        if names:
            held = wanted & frozenset(names.split(","))
            mount = CGROUP_ROOT / names
        else:
            mount = CGROUP_ROOT
            held = wanted & _v2_subtree(mount / path.lstrip("/"))
        directory = mount / path.lstrip("/")
        if held and os.access(directory, os.W_OK):
            parents.append((directory, held))
    return parents


def _v2_subtree(directory: Path) -> frozenset[str]:
    try:
        return frozenset((directory / "cgroup.subtree_control").read_text().split())
    except OSError:
        return frozenset()


def _write_caps(directory: Path, controllers: frozenset[str], caps: Caps) -> None:
    is_v2 = (directory / "cgroup.controllers").exists()
    if "memory" in controllers:
        name = "memory.max" if is_v2 else "memory.limit_in_bytes"
        (directory / name).write_text(str(caps.memory_bytes))
    if "pids" in controllers:
        (directory / "pids.max").write_text(str(caps.pids))
    if "cpu" in controllers:
        quota = caps.cpus * _CPU_PERIOD_US + _CPU_PERIOD_US // 4
        if is_v2:
            (directory / "cpu.max").write_text(f"{quota} {_CPU_PERIOD_US}")
        elif (directory / "cpu.cfs_quota_us").exists():
            (directory / "cpu.cfs_quota_us").write_text(str(quota))


def _remove_group(directory: Path) -> None:
    kill = directory / "cgroup.kill"
    if kill.exists():
        with contextlib.suppress(OSError):
            kill.write_text("1")
    for _ in range(50):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.002)
        else:
            return
