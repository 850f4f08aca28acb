"""Starts: of a machine, of a whole `crucible run`, of the command line, and of what one would use instead.

A restore and a cold boot are timed from just before QEMU is started to the answer of the agent inside.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import AtMostTimes, FasterThan, Figure
from benchmarks.place import Place, unpack_image
from benchmarks.rounds import Case, Readings, interleave, milliseconds, timed
from crucible import assemble
from crucible.backends.qemu.host import find_host
from crucible.sandbox.manager import Manager
from crucible.sandbox.spec import SandboxSpec

STAGES = ("queue", "image", "restore", "agent", "exec", "teardown")
_COLD = "cold"


def measure(place: Place, runner: asyncio.Runner, *, rounds: int) -> list[Figure]:
    rootfs = unpack_image(place)
    # podman takes no path for its state that is longer than 50 characters.
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        return _measure(place, runner, rootfs, podman_command(Path(storage), rootfs), rounds)


def _measure(
    place: Place, runner: asyncio.Runner, rootfs: Path, podman: list[str], rounds: int
) -> list[Figure]:
    why_no_podman = why_unusable(podman, place)
    machines = _Machines(place, runner)
    program = find_host(place.home / "cache").program
    cases = [
        _program("qemu-version", [program, "--version"], place),
        Case(measure=machines.restore),
        Case(measure=machines.boot, every=max(1, rounds // 10)),
        _program("python", [sys.executable, "-c", "pass"], place),
        _program("help", [*crucible(), "--help"], place),
        Case(measure=lambda: _run(place)),
        _program("bwrap", _bwrap(rootfs), place),
    ]
    if not why_no_podman:
        cases.append(_program("podman", podman, place))
    try:
        samples = interleave("starts", cases, rounds)
    finally:
        machines.close()
    return _figures(samples, why_no_podman)


def crucible() -> list[str]:
    """The installed command, which names this environment's interpreter."""
    script = Path(sys.executable).with_name("crucible")
    return [str(script)] if script.exists() else [sys.executable, "-m", "crucible.cli"]


class _Machines:
    """Machines in this process's hands: one restored anew each time, one that boots from its own disk."""

    def __init__(self, place: Place, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._manager = runner.run(self._prepare(place))

    def restore(self) -> Readings:
        return self._runner.run(self._restore())

    def boot(self) -> Readings:
        return self._runner.run(self._boot())

    def close(self) -> None:
        self._runner.run(self._manager.remove(_COLD, force=True))
        self._manager.records.close()

    async def _prepare(self, place: Place) -> Manager:
        manager = assemble.manager(place.config)
        await manager.create(_COLD, SandboxSpec())
        await manager.start(_COLD)
        await manager.stop(_COLD)
        return manager

    async def _restore(self) -> Readings:
        async with self._manager.open(SandboxSpec()) as held:
            stages = {stage.name: stage.seconds for stage in held.machine.stages}
        ready = stages["restore"] + stages["agent"]
        return {"restore": stages["restore"], "restore-ready": ready}

    async def _boot(self) -> Readings:
        record = await self._manager.start(_COLD)
        stages = {
            stage.name: stage.seconds for stage in self._manager.held[record.id].machine.stages
        }
        await self._manager.stop(_COLD)
        return {"boot": stages["restore"]}


def _run(place: Place) -> Readings:
    wall = timed([*crucible(), "run", "--", "true"], place.environment)
    stages = place.durations()
    readings = {f"run-{name}": stages[name] for name in STAGES if name in stages}
    rest = wall - stages.get("total", 0.0)
    return {"run": wall, **readings, "run-rest": rest}


def _program(key: str, argv: list[str], place: Place) -> Case:
    def once() -> Readings:
        return {key: timed(argv, place.environment)}

    return Case(measure=once)


def podman_command(storage: Path, rootfs: Path) -> list[str]:
    return [
        "podman", "--runtime", "runc", "--cgroup-manager=cgroupfs",
        "--root", str(storage / "root"), "--runroot", str(storage / "run"),
        "run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024",
        "--ulimit", "nproc=1000:1000", "--rootfs", str(rootfs), "true",
    ]  # fmt: skip


def _bwrap(rootfs: Path) -> list[str]:
    return [
        "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", str(rootfs), "/",
        "--proc", "/proc", "--dev", "/dev", "true",
    ]  # fmt: skip


def why_unusable(podman: list[str], place: Place) -> str:
    for program in ("podman", "runc"):
        if shutil.which(program) is None and not Path("/usr/sbin", program).exists():
            return f"{program} is not installed"
    try:
        timed(podman, place.environment)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return f"podman fails here: {lines[-1] if lines else error.returncode}"
    return ""


def _figures(samples: Mapping[str, list[float]], why_no_podman: str) -> list[Figure]:
    def figure(key: str, name: str, **more: object) -> Figure:
        return Figure(key=key, name=name, samples=milliseconds(samples.get(key)), **more)  # type: ignore[arg-type]

    restored = (AtMostTimes(factor=6, other="qemu-version"), FasterThan(factor=20, other="boot"))
    return [
        figure("qemu-version", "qemu-system --version"),
        figure("restore", "template restore", targets=restored),
        figure("restore-ready", "template restore, until it has its own identity"),
        figure("boot", "cold boot of the same machine"),
        figure("python", "python3 -c pass"),
        figure("help", "crucible --help", targets=(AtMostTimes(factor=3, other="python"),)),
        figure("bwrap", "bwrap true"),
        figure("podman", "podman run --rm (runc) true", why_missing=why_no_podman),
        figure(
            "run",
            "crucible run -- true, no daemon",
            targets=(AtMostTimes(factor=2.5, other="podman"),),
        ),
        *[figure(f"run-{name}", f"of that: {name}") for name in STAGES],
        figure("run-rest", "of that: the interpreter, the command line and the records"),
    ]
