"""One line per step for people who wait: what is done, how long it took, and why it failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG = Path(__file__).resolve().parent.parent / ".state" / "quickstart.log"
_SHOWN_LINES = 15
_TICK_S = 0.2


class StepFailed(Exception):
    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self) -> int:
        say(f"error: {self}")
        if self.hint:
            say(f"  hint: {self.hint}")
        return 1


class Step:
    """Call it to say in a word how the step ended; `note` says what it is at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.result = "done"

    def __call__(self, result: str) -> None:
        self.result = result

    def note(self, text: str) -> None:
        say(f"    {text}")


@contextmanager
def step(name: str) -> Iterator[Step]:
    say(f"==> {name}")
    started = time.monotonic()
    current = Step(name)
    yield current
    say(f"    {current.result} ({time.monotonic() - started:.1f} s)")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_quietly(
    argv: list[str], *, may_fail: bool = False, variables: dict[str, str] | None = None
) -> bool:
    """Runs a program with its output in the log; the end of it is shown when it fails. Tells whether it succeeded."""
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a+", encoding="utf-8", errors="replace") as log:
        log.write(f"$ {' '.join(argv)}\n")
        log.flush()
        begin = log.tell()
        own = {**environment(), **(variables or {})}
        status = _wait(
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own)
        )
        if status == 0 or may_fail:
            return status == 0
        log.seek(begin)
        tail = "".join(f"  | {line}" for line in log.readlines()[-_SHOWN_LINES:])
    raise StepFailed(
        f"`{' '.join(argv[:4])} …` ended with status {status}:\n{tail.rstrip()}",
        hint=f"Everything it said is in {LOG.relative_to(Path.cwd()) if LOG.is_relative_to(Path.cwd()) else LOG}",
    )


def environment() -> dict[str, str]:
    """Ours without what makes Python slow or sends it elsewhere."""
    unwanted = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Counts seconds on a terminal, so that a long step is seen to live."""
    started = time.monotonic()
    try:
        while True:
            try:
                return process.wait(_TICK_S)
            except subprocess.TimeoutExpired:
                if sys.stderr.isatty():
                    print(f"\r    {time.monotonic() - started:.0f} s ", end="", file=sys.stderr)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
