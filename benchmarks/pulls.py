"""An image of 100 MB from a registry on loopback, until a command runs in it; beside `podman pull` of the same."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.images.registry import MadeImage, make_image, running_registry

from benchmarks.figures import Figure
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, timed
from benchmarks.starts import crucible
from crucible.programs import find_program

_MEGABYTES = 100
_LAYERS = 4
_NAMES = {
    "pull-cold": "crucible image pull of {0} MB, nothing of it here",
    "pull-cached": "crucible image pull of {0} MB, all of it here",
    "pulled-ready": "crucible run in an image of {0} MB, pull and template included",
    "pulled-again": "crucible run in an image of {0} MB that is here",
    "podman-cold": "podman pull of {0} MB, nothing of it here",
    "podman-cached": "podman pull of {0} MB, all of it here",
}


def measure(place: Place, *, rounds: int) -> list[Figure]:
    why = _why_impossible()
    if why:
        return _figures({}, why, why)
    # podman takes no path for its state that is longer than 50 characters.
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as storage,
        running_registry(place.scratch / "registry") as registry,
    ):
        reference = registry.push("bench/large:1", _large_image())
        podman = _podman(Path(storage))
        why_no_podman = _why_no_podman(podman, reference, place)
        kept = _templates(place)
        cases = [Case(measure=lambda: _crucible(place, reference, kept))]
        if not why_no_podman:
            cases.append(Case(measure=lambda: _podman_pulls(place, podman, reference)))
        return _figures(interleave("pulls", cases, rounds), "", why_no_podman)


def _crucible(place: Place, reference: str, kept: set[Path]) -> Readings:
    pull = [*crucible(), "image", "pull", reference]
    run = [*crucible(), "run", "--image", reference, "--", "/busybox", "true"]
    cold, cached = timed(pull, place.environment), timed(pull, place.environment)
    _forget(place, reference, kept)
    ready, again = timed(run, place.environment), timed(run, place.environment)
    _forget(place, reference, kept)
    return {"pull-cold": cold, "pull-cached": cached, "pulled-ready": ready, "pulled-again": again}


def _forget(place: Place, reference: str, kept: set[Path]) -> None:
    """Also its template, which stays for whoever pulls the image again: the first use has to make one."""
    timed([*crucible(), "image", "remove", reference], place.environment)
    timed([*crucible(), "image", "prune"], place.environment)
    for template in _templates(place) - kept:
        shutil.rmtree(template)


def _templates(place: Place) -> set[Path]:
    return {path for path in (place.home / "templates").iterdir() if path.is_dir()}


def _podman_pulls(place: Place, podman: list[str], reference: str) -> Readings:
    pull = [*podman, "pull", "--quiet", "--tls-verify=false", reference]
    cold, cached = timed(pull, place.environment), timed(pull, place.environment)
    timed([*podman, "rmi", reference], place.environment)
    return {"podman-cold": cold, "podman-cached": cached}


def _podman(storage: Path) -> list[str]:
    return [
        "podman", "--runtime", "runc", "--cgroup-manager=cgroupfs",
        "--root", str(storage / "root"), "--runroot", str(storage / "run"),
    ]  # fmt: skip


def _large_image() -> MadeImage:
    """A program that needs nothing else, and bytes that do not compress, in as many layers as is usual."""
    busybox = Path(find_program("busybox") or "").read_bytes()
    size = _MEGABYTES * 1_000_000 // _LAYERS
    data = [{f"data/{number}": os.urandom(size)} for number in range(_LAYERS)]
    return make_image(_program_tar(busybox), *data)


def _program_tar(program: bytes) -> bytes:
    member = tarfile.TarInfo("busybox")
    member.size, member.mode = len(program), 0o755
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.addfile(member, io.BytesIO(program))
    return stream.getvalue()


def _why_impossible() -> str:
    for program in ("docker-registry", "busybox"):
        if find_program(program) is None:
            return f"{program} is not installed"
    return ""


def _why_no_podman(podman: list[str], reference: str, place: Place) -> str:
    if shutil.which("podman") is None:
        return "podman is not installed"
    try:
        _podman_pulls(place, podman, reference)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return f"podman fails here: {lines[-1] if lines else error.returncode}"
    return ""


def _figures(samples: Mapping[str, list[float]], why: str, why_no_podman: str) -> list[Figure]:
    return [
        Figure(
            key=key,
            name=name.format(_MEGABYTES),
            unit="s",
            samples=tuple(samples.get(key, ())),
            why_missing=why_no_podman if key.startswith("podman") else why,
        )
        for key, name in _NAMES.items()
    ]
