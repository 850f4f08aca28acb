"""Several images in one root: their filesystems one after the other, behind a page that says where each lies.

No file of an image is opened for it. The machine needs no further disk, and templates, snapshots and forks are what
they are with one image.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from crucible.errors import BadSetting
from crucible.images.catalog import Image
from crucible.images.lock import held
from crucible.images.report import Report, silent
from crucible.values import replace
from crucible.wire.composition import ALIGNMENT, MOST_PARTS, Part, header

# Raised when roots are put together in another way, so that old ones are not taken for new.
_GENERATION = 1
_STAGE = "image"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z", re.ASCII)
# A root that is made is linked to by a template at once; one that nobody has linked to since is of no more use.
_SPARED_S = 3600.0


def check_part_name(name: str) -> str:
    if not _NAME.match(name):
        raise BadSetting(
            f"{name!r} is no name for a further image",
            hint="Use up to 32 small letters, digits and hyphens, like --with app=IMAGE",
        )
    return name


def check_parts(further: Mapping[str, str]) -> None:
    for name in further:
        check_part_name(name)
    if len(further) >= MOST_PARTS:
        raise BadSetting(
            f"{len(further)} further images are too many for one sandbox",
            hint=f"It can have {MOST_PARTS - 1}",
        )


def composed(home: Path, first: Image, further: Mapping[str, Image]) -> Image:
    """The first image with the others beside it. Its root is made by `make_composed`, when it is needed."""
    parts = tuple(sorted(further.items()))
    digests = "\n".join((first.digest, *(image.digest for _, image in parts)))
    described = hashlib.sha256(f"composed {_GENERATION}\n{digests}\n".encode())
    described.update(_header(first, parts))
    digest = described.hexdigest()
    return replace(
        first,
        digest=digest,
        root=_shelf(home) / f"{digest}.root",
        size_bytes=first.size_bytes + sum(image.size_bytes for _, image in parts),
        parts=parts,
        alone=first,
    )


def make_composed(home: Path, image: Image, report: Report = silent) -> None:
    """Writes the root of a composed image where it is not there yet. Blocks."""
    if image.alone is None or _touch(image.root):
        return
    with held(home / "locks" / f"composed-{image.digest}", stage=_STAGE, report=report):
        if _touch(image.root):
            return
        report(_STAGE, f"putting {len(image.parts) + 1} images together")
        image.root.parent.mkdir(parents=True, exist_ok=True)
        aside = image.root.with_name(f".{image.root.name}.{os.getpid()}")
        try:
            _write(aside, image.alone, image.parts)
            aside.replace(image.root)
        finally:
            aside.unlink(missing_ok=True)


def remove_unused_compositions(home: Path) -> int:
    """Removes the roots that no template, sandbox or snapshot holds, and tells the bytes freed."""
    freed = 0
    for path in _shelf(home).glob("*"):
        try:
            facts = path.stat()
            if facts.st_nlink == 1 and time.time() - facts.st_mtime > _SPARED_S:
                path.unlink()
                freed += facts.st_size
        except FileNotFoundError:
            continue
    return freed


def _shelf(home: Path) -> Path:
    return home / "images" / "composed"


def _touch(path: Path) -> bool:
    """Whether it is there. It was renamed into place whole."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _header(first: Image, further: tuple[tuple[str, Image], ...]) -> bytes:
    """How long it is does not depend on where the images lie, so it is written twice."""
    named = (("", first), *further)
    at = len(header([_part(name, image, 0) for name, image in named]))
    parts = []
    for name, image in named:
        part = _part(name, image, at)
        parts.append(part)
        at += part.length
    return header(parts)


def _part(name: str, image: Image, offset: int) -> Part:
    size = image.root.stat().st_size
    return Part(
        name,
        offset,
        size + -size % ALIGNMENT,
        image.user,
        os.fsencode(image.workdir),
        [(os.fsencode(key), os.fsencode(value)) for key, value in image.environment],
    )


def _write(target: Path, first: Image, further: tuple[tuple[str, Image], ...]) -> None:
    with target.open("wb") as file:
        file.write(_header(first, further))
        file.flush()
        for image in (first, *(image for _, image in further)):
            _append(file.fileno(), image.root)
        os.fsync(file.fileno())
    # Machines read it under users of their own.
    target.chmod(0o644)


def _append(target: int, source: Path) -> None:
    """Within the kernel; a filesystem that can shares the blocks."""
    with source.open("rb") as file:
        size = left = os.fstat(file.fileno()).st_size
        while left:
            copied = os.sendfile(target, file.fileno(), None, left)
            if not copied:
                raise OSError(f"{source} became shorter while it was read")
            left -= copied
    os.write(target, bytes(-size % ALIGNMENT))
