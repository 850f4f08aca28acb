"""Makes the root of a pulled image where there is none yet, and removes those that no name leads to any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crucible.errors import ImageDamaged
from crucible.images import bundle, pulled
from crucible.images.catalog import ROOT_FILE, Image
from crucible.images.layers.rootfs import Made, write_root
from crucible.images.lock import held
from crucible.images.oci.files import locked
from crucible.images.oci.model import Layer, PulledImage
from crucible.images.report import Report, silent

_STAGE = "image"


class WritesRoots(Protocol):
    """`rootfs.write_root`, or what writes the same faster."""

    def __call__(
        self, layers: Sequence[Layer], target: Path, *, stage: str, report: Report
    ) -> Made: ...


def make_root(
    image: PulledImage, home: Path, report: Report = silent, *, write: WritesRoots = write_root
) -> Image:
    """The image as a sandbox can start from it. Call it while the store is open: it needs the blobs.

    Safe to call at once from many processes: one makes the root, the others wait and take it.
    """
    key = pulled.root_key(layer.diff_id for layer in image.layers)
    with held(pulled.lock_of(home, key), stage=_STAGE, report=report):
        if pulled.find_root(home, key) is None:
            _make(image, home, key, report, write)
        pulled.describe(home, image, key)
        found = pulled.load(home, image.digest, image.reference)
    if found is None:
        raise ImageDamaged(image.reference, "it vanished while it was made", hint="Pull it again")
    return found


def remove_unused_roots(
    home: Path, *, in_use: frozenset[str] = frozenset(), waits: bool = True
) -> int:
    """Removes what no name leads to, and tells the bytes freed. `in_use` are digests of manifests that stay.

    Nobody may have the store open, so that nobody is between a name and its root: waits for that, or does nothing.
    """
    with locked(home / "images" / "oci" / "lock", waits=waits) as is_ours:
        return _remove_unused(home, in_use) if is_ours else 0


def _remove_unused(home: Path, in_use: frozenset[str]) -> int:
    kept = {tag.digest for tag in pulled.tags_of(home).all()} | in_use
    for path in _inside(pulled.descriptions_of(home)):
        if path.stem.replace("-", ":", 1) not in kept:
            path.unlink(missing_ok=True)
    freed = 0
    named = {pulled.root_of(path) for path in _inside(pulled.descriptions_of(home))}
    for shelf in _inside(pulled.roots_of(home)):
        if shelf.name in named:
            continue
        with held(pulled.lock_of(home, shelf.name), stage=_STAGE):
            freed += sum(path.stat().st_size for path in shelf.rglob("*") if path.is_file())
            # Without its pointer the root is gone, even if we are killed before the files are.
            (shelf / "current").unlink(missing_ok=True)
            shutil.rmtree(shelf)
    return freed


def _make(image: PulledImage, home: Path, key: str, report: Report, write: WritesRoots) -> None:
    started = time.monotonic()
    shelf = pulled.shelf_of(home, key)
    with bundle.workplace(shelf) as work:
        content = work / "root"
        content.mkdir()
        made = write(image.layers, content / ROOT_FILE, stage=_STAGE, report=report)
        facts: bundle.Facts = {"layers": tuple(layer.diff_id for layer in image.layers)}
        root = bundle.publish(content, shelf, facts=facts)
    notes = [f"{root.size_bytes / 1e6:.0f} MB", f"ready after {time.monotonic() - started:.1f} s"]
    if made.skipped_devices:
        notes.append(f"{made.skipped_devices} device nodes left out")
    if made.skipped_attributes:
        notes.append(f"attributes left out: {', '.join(made.skipped_attributes)}")
    report(_STAGE, "; ".join(notes))


def _inside(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []
