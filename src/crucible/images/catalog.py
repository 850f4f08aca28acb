"""The images on this machine: an image's name → its root filesystem on disk.

A plain name such as `base` is one built here from a recipe; any other is an OCI image's, which was pulled or built.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from crucible.errors import BadReference, BadSetting, ImageDamaged, ImageMissing
from crucible.images import bundle
from crucible.images.bundle import Bundle, BundleDamaged
from crucible.images.lock import held
from crucible.values import dataclass

ROOT_FILE = "root.squashfs"
# The directory that several images in one sandbox have in common; PROTOCOL.md fixes it.
SHARED = "/workspace"
PACKAGES_FILE = "packages.txt"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`root` is a squashfs, and `digest` names what is in it: images that only want to be run differently share it.

    One from a recipe has `packages`, a list of `name version` lines; one from a registry has `manifest_digest`.
    An empty `user` is root. `entrypoint` and `command` are what it runs when nothing else is asked for. A composed one
    has further images as `parts`, by name, and is `alone` without them.
    """

    name: str
    digest: str
    root: Path
    size_bytes: int
    user: str
    workdir: str
    environment: tuple[tuple[str, str], ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    exposed_ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    packages: Path | None = None
    recipe: str = ""
    manifest_digest: str = ""
    parts: tuple[tuple[str, Image], ...] = ()
    alone: Image | None = None

    @property
    def owner(self) -> str:
        """Who owns what is copied in: its user, by a name that means one even when it is root."""
        return self.user or "0"

    @property
    def workspace(self) -> str:
        """Where a directory of the host is copied to: over the whole root would be no good place."""
        return SHARED if self.workdir == "/" or self.parts else self.workdir

    def part(self, name: str) -> Image:
        """A further image, by the name that it has in this one."""
        for known, image in self.parts:
            if known == name:
                return image
        names = ", ".join(known for known, _ in self.parts)
        raise BadSetting(
            f"The sandbox has no further image called {name!r}",
            hint=f"It has {names}"
            if names
            else "Images are added when it is made: --with NAME=IMAGE",
        )


def load_image(home: Path, name: str) -> Image:
    """Raises ImageMissing when there is none of that name, ImageDamaged when a file is cut short."""
    found = _load_built(home, name)
    if found is not None:
        return _image(name, found)
    # Loaded here because the base image, which most sandboxes start from, needs none of it.
    from crucible.images import pulled

    try:
        image = pulled.find(home, name)
    except BadReference:
        image = None
    if image is None:
        raise ImageMissing(name, _names(home))
    return image


def load_images(home: Path, name: str, further: Mapping[str, str]) -> Image:
    """The image of that name, with the further ones beside it."""
    first = load_image(home, name)
    if not further:
        return first
    from crucible.images.composing import composed

    others = {part: load_image(home, image) for part, image in further.items()}
    return composed(home, first, others)


def verify_image(home: Path, name: str) -> Image:
    """Like `load_image`, but every byte is compared with the manifest."""
    image = load_image(home, name)
    try:
        bundle.verify(bundle.load(image.root.parent))
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None
    return image


def list_images(home: Path) -> tuple[Image, ...]:
    """All images that a sandbox can start from, built ones first. A damaged one raises ImageDamaged."""
    from crucible.images import pulled

    return (*list_built(home), *pulled.find_all(home))


def list_built(home: Path) -> tuple[Image, ...]:
    """Those that were built here from a recipe."""
    return tuple(load_image(home, name) for name in _names(home))


def remove_image(home: Path, name: str) -> None:
    """Removes a built image and its older versions. The caller sees to it that nothing uses it."""
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
        current = load_image(home, name).root.parent
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


def _load_built(home: Path, name: str) -> Bundle | None:
    if not _NAME.fullmatch(name):
        return None
    try:
        return bundle.load_current(shelf_of(home, name))
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None


def _image(name: str, found: Bundle) -> Image:
    try:
        return Image(
            name=name,
            digest=found.digest,
            root=found.path / ROOT_FILE,
            size_bytes=found.size_bytes,
            packages=found.path / PACKAGES_FILE,
            user=found.fact("user"),
            workdir=found.fact("workdir"),
            environment=_pairs(found.facts_listed("environment")),
            recipe=found.fact("recipe"),
        )
    except BundleDamaged as damage:
        raise ImageDamaged(name, str(damage)) from None


def _pairs(entries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE` entries taken apart."""
    split = (entry.partition("=") for entry in entries)
    return tuple((key, value) for key, _, value in split)
