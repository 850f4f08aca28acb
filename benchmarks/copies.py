"""A tree of 200 MB into a sandbox and out again, with the real `crucible cp`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.figures import Figure, MovesAtLeast
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, timed
from benchmarks.starts import crucible

_MEGABYTES = 200
_FILES_IN_DIRECTORY = 50
_FILE_BYTES = 100_000
_BOX = "copies"


def measure(place: Place, *, rounds: int) -> list[Figure]:
    tree = _make_tree(place.scratch / "tree")
    place.start(_BOX)
    try:
        samples = interleave("copies", [Case(measure=lambda: _there_and_back(place, tree))], rounds)
    finally:
        place.remove(_BOX)
        place.end_owner()
    target = (MovesAtLeast(megabytes=_MEGABYTES, per_second=40),)
    return [
        Figure(
            key=f"copy-{way}",
            name=f"a tree of {_MEGABYTES} MB (2,000 files) {way}",
            unit="s",
            samples=tuple(samples.get(f"copy-{way}", ())),
            targets=target,
        )
        for way in ("in", "out")
    ]


def _there_and_back(place: Place, tree: Path) -> Readings:
    back = place.scratch / "back"
    there = f"{_BOX}:/workspace/tree"
    into = timed([*crucible(), "cp", str(tree), there], place.environment)
    out = timed([*crucible(), "cp", there, str(back)], place.environment)
    _check(tree, back)
    shutil.rmtree(back)
    timed([*crucible(), "exec", _BOX, "rm", "-rf", "/workspace/tree"], place.environment)
    return {"copy-in": into, "copy-out": out}


def _make_tree(root: Path) -> Path:
    for number in range(_MEGABYTES * 1_000_000 // _FILE_BYTES):
        directory = root / f"{number // _FILES_IN_DIRECTORY:03}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number:05}.bin").write_bytes(os.urandom(_FILE_BYTES))
    return root


def _check(tree: Path, back: Path) -> None:
    """A fast copy that is wrong is worth nothing: every file is there and one in a hundred is compared."""
    names = sorted(path.relative_to(tree) for path in tree.rglob("*.bin"))
    if names != sorted(path.relative_to(back) for path in back.rglob("*.bin")):
        raise RuntimeError("the tree that came back has other files")
    for name in names[::100]:
        if (tree / name).read_bytes() != (back / name).read_bytes():
            raise RuntimeError(f"{name} came back changed")
