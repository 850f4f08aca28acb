"""`crucible run` with a daemon: one after the other with machines that wait, and many at once.

The pool is given the time to be full again before each sample: what is measured is a machine that waits, and not how
fast others come after it. The crowd at the end is served as it comes.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import AtMost, AtMostTimes, Figure
from benchmarks.place import Place, unpack_image
from benchmarks.rounds import Case, Readings, interleave, milliseconds, say, timed
from benchmarks.starts import crucible, podman_command, why_unusable

STAGES = ("handout", "seed", "exec", "teardown")
_AT_ONCE = 8
_FULL_DEADLINE_S = 60.0


def measure(place: Place, *, rounds: int, crowd: int) -> list[Figure]:
    rootfs = unpack_image(place)
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        return _measure(place, podman_command(Path(storage), rootfs), rounds, crowd)


def _measure(place: Place, podman: list[str], rounds: int, crowd: int) -> list[Figure]:
    why_no_podman = why_unusable(podman, place)
    timed([*crucible(), "daemon", "start"], place.environment)
    try:
        python = [sys.executable, "-c", "pass"]
        cases = [
            Case(measure=lambda: {"warm-python": timed(python, place.environment)}),
            Case(measure=lambda: _run(place)),
        ]
        if not why_no_podman:
            cases.append(Case(measure=lambda: {"warm-podman": timed(podman, place.environment)}))
        samples = interleave("warm", cases, rounds)
        return [*_figures(samples, why_no_podman), *_crowd(place, crowd)]
    finally:
        timed([*crucible(), "daemon", "stop"], place.environment)


def _run(place: Place) -> Readings:
    wait_until_full(place)
    wall = timed([*crucible(), "run", "--", "true"], place.environment)
    stages = place.durations()
    readings = {f"warm-{name}": stages[name] for name in STAGES if name in stages}
    return {"warm": wall, **readings, "warm-rest": wall - stages.get("total", 0.0)}


def wait_until_full(place: Place) -> None:
    deadline = time.monotonic() + _FULL_DEADLINE_S
    while _status(place)["pool"]["warm"] < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)


def _status(place: Place) -> dict[str, Any]:
    return place.ask("status")


def _crowd(place: Place, count: int) -> list[Figure]:
    """So many runs, eight at a time: how many fail, what is left, and how much the daemon has grown."""
    half = _serve(place, count // 2)
    before = _memory_mb(place.owner_pid())
    rest = _serve(place, count - count // 2)
    after = _memory_mb(place.owner_pid())
    left = [record for record in place.records() if record.state != "warm"]
    failures = float(sum(not is_good for is_good in (*half, *rest)))
    return [
        Figure(key="warm-failures", name=f"failures in {count} runs, {_AT_ONCE} at a time",
               unit="count", samples=(failures,), targets=(AtMost(limit=0),)),
        Figure(key="warm-left", name="sandboxes left after them", unit="count",
               samples=(float(len(left)),), targets=(AtMost(limit=0),)),
        Figure(key="warm-growth", name="memory of the daemon, second half of them", unit="MB",
               samples=(max(0.0, after - before),), targets=(AtMost(limit=8),)),
    ]  # fmt: skip


def _serve(place: Place, count: int) -> list[bool]:
    def one(number: int) -> bool:
        say(f"warm: run {number} of {count}")
        done = subprocess.run(
            [*crucible(), "run", "--", "echo", str(number)],
            stdin=subprocess.DEVNULL, capture_output=True, cwd="/", env=dict(place.environment),
            timeout=300,
        )  # fmt: skip
        return (done.returncode, done.stdout) == (0, f"{number}\n".encode())

    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as crowd:
        return list(crowd.map(one, range(count)))


def _memory_mb(pid: int) -> float:
    """What the process has to itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    return sum(private) * 1024 / 1e6


def _figures(samples: Mapping[str, list[float]], why_no_podman: str) -> list[Figure]:
    def figure(key: str, name: str, **more: object) -> Figure:
        return Figure(key=key, name=name, samples=milliseconds(samples.get(key)), **more)  # type: ignore[arg-type]

    return [
        figure("warm-python", "python3 -c pass, beside these"),
        figure("warm-podman", "podman run --rm (runc) true, beside these", why_missing=why_no_podman),
        figure("warm", "crucible run -- true, daemon warm",
               targets=(AtMostTimes(factor=0.7, other="warm-podman"),)),
        *[figure(f"warm-{name}", f"of that: {name}") for name in STAGES],
        figure("warm-rest", "of that: the command line and the way to the daemon",
               targets=(AtMostTimes(factor=3, other="warm-python"),)),
    ]  # fmt: skip
