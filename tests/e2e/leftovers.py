"""What a home has left on the host: processes, limits groups, mounts, directories, records half done."""

from __future__ import annotations

import json
import time
from pathlib import Path

from crucible.sandbox.records import SandboxRecord, open_records

SETTLED = ("created", "running", "paused", "stopped")


def leftovers(home: Path, *, deadline_s: float = 60.0) -> list[str]:
    """What belongs to nobody. Processes that were killed a moment ago are given some time to go."""
    deadline = time.monotonic() + deadline_s
    while (found := _found(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _found(home: Path) -> list[str]:
    records = open_records(home)
    sandboxes, saved = records.sandboxes(), records.snapshots()
    records.close()
    ids = {record.id for record in sandboxes}
    found = [f"{record.name} is {record.state}" for record in sandboxes if not _is_settled(record)]
    found += [f"snapshot {item.tag} is {item.state}" for item in saved if item.state != "saved"]
    found += _strays(home / "sandboxes", ids)
    found += _strays(home / "snapshots", {item.id for item in saved})
    found += _strays(home / "scratch", set())
    found += [f"building {path}" for path in (home / "templates").glob(".*.making")]
    running = [record for record in sandboxes if record.state in ("running", "paused")]
    found += _processes(home, {pid for record in running for pid in _pids(record)})
    found += _groups(home, {record.id for record in running})
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [line for line in mounts if str(home) in line]
    for record in sandboxes:
        found += _files(record)
    return found


def _is_settled(record: SandboxRecord) -> bool:
    return record.state in SETTLED and not record.is_temporary


def _strays(directory: Path, known: set[str]) -> list[str]:
    return [f"stray {path}" for path in directory.glob("*") if path.name not in known]


def _files(record: SandboxRecord) -> list[str]:
    names = {path.name for path in record.directory.glob("*")}
    if record.state == "created":
        return [f"{record.name} has {name}" for name in names]
    if record.state == "stopped":
        return [f"{record.name} has {name}" for name in names if name.endswith(".sock")]
    return []


def _pids(record: SandboxRecord) -> set[int]:
    pids = {record.pid} if record.pid is not None else set()
    detail = json.loads(record.pid_detail or "{}")
    return pids | ({detail["pid"]} if detail else set())


def _processes(home: Path, expected: set[int]) -> list[str]:
    """Machines are known by the files of the home they hold open, whatever became of their records."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) not in expected:
            argv = _read(entry / "cmdline").split(b"\0")
            is_machine = any(word.startswith(b"crucible-") for word in argv)
            if is_machine and _holds(entry, home):
                found.append(f"process {entry.name}: {argv[:1]}")
    return found


def _holds(process: Path, home: Path) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if str(descriptor.readlink()).startswith(str(home)):
                return True
        except OSError:
            continue
    return False


def _groups(home: Path, running: set[str]) -> list[str]:
    made = _read(home / "groups.made").decode().split()
    expected = {f"crucible-{sandbox_id}" for sandbox_id in running}
    return [path for path in set(made) if Path(path).exists() and Path(path).name not in expected]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
