"""Whether the host can carry one more sandbox, told with the figures."""

from __future__ import annotations

from pathlib import Path

from crucible.errors import NotEnoughMemory

_MEMINFO = Path("/proc/meminfo")
_CGROUPS = Path("/sys/fs/cgroup")
RESERVE_MIB = 256
OVERHEAD_MIB = 64
# What a machine has taken of the host by the time it answers; the rest it takes as it uses it.
FRESH_MIB = 64


def available_mib() -> int:
    """What the kernel says new programs can have, or less where a cgroup caps us."""
    free = _meminfo_mib()
    cap = _cgroup_room_mib()
    return free if cap is None else min(free, cap)


def admit(memory_mib: int, promised_mib: int = 0) -> None:
    """Raises NotEnoughMemory unless all of it could be had now, `promised` being on its way to others.

    Memory is lent more than once: sandboxes that were admitted may together be allowed more than
    there is, as most of them never use what they are allowed.
    """
    wanted = memory_mib + OVERHEAD_MIB
    room = available_mib() - RESERVE_MIB - promised_mib
    if wanted > room:
        raise NotEnoughMemory(wanted, max(0, room))


def _meminfo_mib() -> int:
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0


def _cgroup_room_mib() -> int | None:
    for directory, used_name, cap_name, cache_name in (
        (_CGROUPS, "memory.current", "memory.max", "inactive_file"),
        (
            _CGROUPS / "memory",
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
            "total_inactive_file",
        ),
    ):
        try:
            cap = (directory / cap_name).read_text().strip()
            used = int((directory / used_name).read_text())
            figures = (directory / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):
            continue
        # What is only a copy of files counts as used, yet gives way to whoever needs room.
        cache = sum(int(line.split()[1]) for line in figures if line.split()[0] == cache_name)
        if cap.isdecimal() and int(cap) < 1 << 60:
            return max(0, int(cap) - used + cache) >> 20
    return None
