"""An image that a sandbox is to start from and that is not here: fetched now, with what is going on told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from crucible.errors import RegistryUnreachable
from crucible.images.catalog import Image
from crucible.images.obtaining import obtain
from crucible.images.oci.eviction import InUse
from crucible.images.oci.pull import Policy, Pulling
from crucible.images.oci.reference import RegistryReference, parse_reference
from crucible.images.report import NOTICE, Report

# So long a registry that did not answer is not asked again for an image that was only guessed.
_SILENCE_S = 300.0
_TOLD_EVERY_S = 0.2

IsStopped = Callable[[], bool]


class Abandoned(Exception):
    """Nobody waits for the image any more."""


def fetch(
    home: Path, name: str, *, is_guess: bool, is_stopped: IsStopped, in_use: InUse, report: Report
) -> Image:
    """Raises BadReference, what `obtain` raises, and Abandoned once `is_stopped` says so."""
    reference = parse_reference(name)
    silence = home / "cache" / f"silent-{reference.registry.replace(':', '-')}"
    if is_guess and _is_fresh(silence):
        raise RegistryUnreachable(reference.registry, "it did not answer a short while ago")
    told = _Told(reference, report, is_stopped)
    report(NOTICE, f"Image {reference.familiar} is not here; pulling it")
    how = Pulling(
        home=home,
        policy=Policy.MISSING,
        report=told.step,
        progress=told.layer,
        in_use=in_use,
    )
    try:
        return obtain(name, how)
    except RegistryUnreachable:
        with suppress(OSError):
            silence.parent.mkdir(parents=True, exist_ok=True)
            silence.touch()
        raise


class _Told:
    """Turns the progress of many layers into one line, and ends the work when nobody waits for it."""

    def __init__(self, reference: RegistryReference, report: Report, is_stopped: IsStopped) -> None:
        self._name = reference.familiar
        self._report = report
        self._is_stopped = is_stopped
        self._lock = threading.Lock()
        self._here: dict[str, tuple[int, int]] = {}
        self._last = 0.0

    def step(self, stage: str, detail: str) -> None:
        self._check()
        self._report(stage, detail)

    def layer(self, digest: str, here: int, size: int) -> None:
        self._check()
        with self._lock:
            self._here[digest] = (here, size)
            now = time.monotonic()
            if now - self._last < _TOLD_EVERY_S:
                return
            self._last = now
            done, total = (sum(column) for column in zip(*self._here.values(), strict=True))
        self._report("image", f"{self._name}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")

    def _check(self) -> None:
        if self._is_stopped():
            raise Abandoned


def _is_fresh(path: Path) -> bool:
    try:
        return 0 <= time.time() - path.stat().st_mtime < _SILENCE_S
    except OSError:
        return False
