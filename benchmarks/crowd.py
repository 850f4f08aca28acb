"""Many sandboxes: what an idle one costs in memory, and all at once against one after the other."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import AtMost, AtMostTimes, Figure
from benchmarks.place import Place
from benchmarks.rounds import say

_SETTLE_S = 3.0


@dataclass(slots=True, kw_only=True)
class _Samples:
    one_by_one: list[float] = field(default_factory=list)
    at_once: list[float] = field(default_factory=list)
    failures: list[float] = field(default_factory=list)
    available: list[float] = field(default_factory=list)
    proportional: list[float] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)


def measure(place: Place, *, count: int, rounds: int) -> list[Figure]:
    samples = _Samples()
    for number in range(1, rounds + 1):
        say(f"{count} sandboxes: round {number} of {rounds}")
        before = _available_mb()
        # The owner and the first machine's memory are part of what sandboxes cost, not of their start.
        place.start("first")
        place.remove("first")
        samples.one_by_one.append(_start_one_by_one(place, count))
        time.sleep(_SETTLE_S)
        taken = before - _available_mb()
        # Others may have freed more meanwhile than the sandboxes took: then this tells nothing.
        if taken > 0:
            samples.available.append(taken / count)
        held = held_mb(place)
        if held is not None:
            samples.proportional.append(held / count)
        _remove_all(place)
        seconds, failed = _start_at_once(place, count)
        if not failed:
            samples.at_once.append(seconds)
        samples.failures.append(len(failed))
        samples.reasons.update(failed)
        _remove_all(place)
        place.end_owner()
        time.sleep(_SETTLE_S)
    return _figures(samples, count)


def _start_one_by_one(place: Place, count: int) -> float:
    began = time.perf_counter()
    for name in _names(count):
        place.start(name)
    return time.perf_counter() - began


def _start_at_once(place: Place, count: int) -> tuple[float, list[str]]:
    """Seconds until the last one runs, and why others do not."""
    failed: list[str] = []
    ready = threading.Barrier(count + 1)

    def start(name: str) -> None:
        ready.wait()
        try:
            place.start(name)
        except Exception as error:
            failed.append(str(error))

    threads = [threading.Thread(target=start, args=(name,)) for name in _names(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, failed


def _remove_all(place: Place) -> None:
    for record in place.records():
        place.remove(record.name)


def _names(count: int) -> list[str]:
    return [f"idle-{number}" for number in range(1, count + 1)]


def _available_mb() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("the kernel does not tell what memory is available")


def held_mb(place: Place) -> float | None:
    """What the machines, what wraps them, and the owner hold; pages they share are counted once in all."""
    pids = [place.owner_pid()]
    for record in place.records():
        wrapper = json.loads(record.pid_detail or "{}")
        pids += [pid for pid in (record.pid, wrapper.get("pid")) if pid is not None]
    try:
        return sum(_pss_bytes(pid) for pid in pids) / 1e6
    except OSError:
        return None


def _pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _figures(samples: _Samples, count: int) -> list[Figure]:
    small = (AtMost(limit=25),)
    why = "" if samples.proportional else "the kernel does not let us read it"
    reason = f" ({sorted(samples.reasons)[0]})" if samples.reasons else ""
    return [
        Figure(
            key="one-by-one",
            name=f"{count} sandboxes one after the other, all ready",
            unit="s",
            samples=tuple(samples.one_by_one),
        ),
        Figure(
            key="at-once",
            name=f"{count} sandboxes asked for at once, all ready",
            unit="s",
            samples=tuple(samples.at_once),
            why_missing="" if samples.at_once else "some failed",
            targets=(AtMostTimes(factor=1.2, other="one-by-one"),),
        ),
        Figure(
            key="failures",
            name=f"of {count} asked for at once, those that failed{reason}",
            unit="count",
            samples=tuple(samples.failures),
            targets=(AtMost(limit=0),),
        ),
        # For information: it moves with whatever the kernel reclaims meanwhile, and has come out below the
        # private memory of the machines alone. The verdict is by what their processes hold.
        Figure(
            key="idle-available",
            name=f"memory of each of {count} idle sandboxes, owner included: drop of MemAvailable",
            unit="MB",
            samples=tuple(samples.available),
            why_missing="" if samples.available else "other programs freed memory meanwhile",
        ),
        Figure(
            key="idle-pss",
            name=f"memory of each of {count} idle sandboxes, owner included: sum of Pss",
            unit="MB",
            samples=tuple(samples.proportional),
            targets=small,
            why_missing=why,
        ),
    ]
