"""The lock between builders: many processes, one at a time, freed by death."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

from crucible.images.lock import held

SPAWN = multiprocessing.get_context("spawn")
WORKERS = 6


def build_once(directory: Path) -> None:
    """What every builder does: look under the lock, and build when it is not there."""
    with held(directory / "lock", stage="test"):
        if (directory / "built").exists():
            return
        with (directory / "builds").open("a") as builds:
            builds.write("x")
        (directory / "built").touch()


def hold_until_killed(directory: Path, is_held: Event) -> None:
    with held(directory / "lock", stage="test"):
        is_held.set()
        signal.pause()


def test_processes_that_ask_at_once_build_once(tmp_path: Path) -> None:
    workers = [SPAWN.Process(target=build_once, args=(tmp_path,)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * WORKERS
    assert (tmp_path / "builds").read_text() == "x"


def test_a_killed_holder_frees_the_lock_and_waiting_is_reported(tmp_path: Path) -> None:
    is_held = SPAWN.Event()
    holder = SPAWN.Process(target=hold_until_killed, args=(tmp_path, is_held))
    holder.start()
    assert is_held.wait(60)
    reports: list[str] = []

    def report(stage: str, detail: str) -> None:
        reports.append(f"{stage}: {detail}")
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)

    with held(tmp_path / "lock", stage="base", report=report):
        pass
    holder.join(60)
    assert reports == ["base: waiting for another process that is preparing it"]


def test_the_lock_is_free_after_a_failure(tmp_path: Path) -> None:
    for _ in range(2):
        try:
            with held(tmp_path / "lock", stage="test"):
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
