"""The images on this machine: an image's name → its root filesystem on disk."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import ImageDamaged, ImageMissing
from crucible.images import bundle
from crucible.images.bundle import Bundle, BundleDamaged
from crucible.images.lock import held

ROOT_FILE = "root.squashfs"
PACKAGES_FILE = "packages.txt"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`root` is a squashfs; `packages` lists what it was made of, one `name version` a line."""

    name: str
    digest: str
    root: Path
    size_bytes: int
    packages: Path
    user: str
    workdir: str
    environment: tuple[tuple[str, str], ...]
    recipe: str


def load_image(home: Path, name: str) -> Image:
    """Raises ImageMissing when there is none of that name, ImageDamaged when a file is cut short."""
    return _image(name, _load(home, name))


def verify_image(home: Path, name: str) -> Image:
    """Like `load_image`, but every byte is compared with the manifest."""
    found = _load(home, name)
    try:
        bundle.verify(found)
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None
    return _image(name, found)


def list_images(home: Path) -> tuple[Image, ...]:
    """All images, by name. A damaged one raises ImageDamaged."""
    return tuple(load_image(home, name) for name in _names(home))


def remove_image(home: Path, name: str) -> None:
    """Removes the image and its older versions. The caller sees to it that nothing uses it."""
    with held(lock_of(home, name), stage=name):
        if name not in _names(home):
            raise ImageMissing(name, _names(home))
        # Without its pointer the image is gone, even if we are killed before the files are.
        (shelf_of(home, name) / "current").unlink()
        shutil.rmtree(shelf_of(home, name))


def remove_older_versions(home: Path, name: str) -> int:
    """Removes all but the current version and tells the bytes freed. The caller knows what is in use."""
    freed = 0
    with held(lock_of(home, name), stage=name):
        current = _load(home, name).path
        for version in shelf_of(home, name).iterdir():
            if version.is_dir() and version != current:
                freed += sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
                shutil.rmtree(version)
    return freed


def shelf_of(home: Path, name: str) -> Path:
    return home / "images" / name


def lock_of(home: Path, name: str) -> Path:
    return home / "locks" / f"image-{name}"


def _names(home: Path) -> tuple[str, ...]:
    return tuple(sorted(pointer.parent.name for pointer in (home / "images").glob("*/current")))


def _load(home: Path, name: str) -> Bundle:
    if not _NAME.fullmatch(name):
        raise ImageMissing(name, _names(home))
    try:
        found = bundle.load_current(shelf_of(home, name))
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None
    if found is None:
        raise ImageMissing(name, _names(home))
    return found


def _image(name: str, found: Bundle) -> Image:
    try:
        pairs = (entry.partition("=") for entry in found.facts_listed("environment"))
        return Image(
            name=name,
            digest=found.digest,
            root=found.path / ROOT_FILE,
            size_bytes=found.size_bytes,
            packages=found.path / PACKAGES_FILE,
            user=found.fact("user"),
            workdir=found.fact("workdir"),
            environment=tuple((key, value) for key, _, value in pairs),
            recipe=found.fact("recipe"),
        )
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None
