"""Cases measured in turns, so that whatever else this machine does hits all of them alike."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Readings = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`measure` gives seconds, or another unit, by the key of the figure. `every`: only in each so-manieth round."""

    measure: Callable[[], Readings]
    every: int = 1


def interleave(title: str, cases: Sequence[Case], rounds: int) -> dict[str, list[float]]:
    """All samples by key. Each round begins with another case; the first, which warms caches, does not count."""
    samples: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        say(f"{title}: round {number} of {rounds}" if number else f"{title}: warming up")
        turn = number % len(cases)
        for case in (*cases[turn:], *cases[:turn]):
            if number % case.every:
                continue
            for key, value in case.measure().items():
                if number:
                    samples.setdefault(key, []).append(value)
    return samples


def timed(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """Seconds from the start of a program to its end, outside of any project. Raises CalledProcessError if it fails."""
    began = time.perf_counter()
    subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        env=dict(environment),
        check=True,
        timeout=300,
    )
    return time.perf_counter() - began


def milliseconds(samples: Sequence[float] | None) -> tuple[float, ...]:
    return tuple(value * 1000 for value in samples or ())


def say(text: str) -> None:
    """Progress, for whoever waits."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def say_done() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
