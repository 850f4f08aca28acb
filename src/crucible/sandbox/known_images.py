"""The images of a home: the built-in one and those from elsewhere, in one list; found, described, removed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crucible.errors import BadReference, ImageDamaged, ImageInUse, ImageMissing
from crucible.images import catalog, obtaining, pulled
from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store
from crucible.sandbox.image_use import full_name, image_users, images_in_use

_DIGITS = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """`size_bytes` is what was sent, `root_bytes` what the sandboxes' root takes. Images may share both."""

    name: str
    reference: str
    digest: str
    size_bytes: int
    root_bytes: int
    layers: int
    used_by: tuple[str, ...]
    pulled_at: float | None


def known_images(home: Path) -> list[KnownImage]:
    """The built-in ones first."""
    users = image_users(home)
    lines = [
        KnownImage(
            name=image.name,
            reference="",
            digest=image.digest,
            size_bytes=0,
            root_bytes=image.size_bytes,
            layers=0,
            used_by=users.get(image.name, ()),
            pulled_at=None,
        )
        for image in catalog.list_built(home)
    ]
    store = Store(home)
    with store.opened():
        lines += [
            KnownImage(
                name=parse_reference(stored.tag.reference).familiar,
                reference=stored.tag.reference,
                digest=stored.image.digest,
                size_bytes=stored.image.size_bytes,
                root_bytes=_root_bytes(home, stored.image.digest),
                layers=len(stored.image.layers),
                used_by=users.get(stored.tag.reference, ()),
                pulled_at=stored.tag.pulled_at,
            )
            for stored in store.stored()
            if not stored.tag.is_internal
        ]
    return lines


def _root_bytes(home: Path, digest: str) -> int:
    try:
        image = pulled.load(home, digest, digest)
    except ImageDamaged:
        return 0
    return image.size_bytes if image is not None else 0


def find_stored(store: Store, name: str) -> PulledImage:
    """By its name, or by the first digits of its digest where only one image has them. Raises ImageMissing."""
    try:
        found = store.find(str(parse_reference(name)))
    except BadReference:
        found = None
    if found is not None:
        return found
    if digits := _DIGITS.fullmatch(name):
        meant = [
            stored.image
            for stored in store.stored()
            if stored.image.digest.partition(":")[2].startswith(digits.group(1))
        ]
        if len({image.digest for image in meant}) == 1:
            return meant[0]
    shown = (tag for tag in store.tags.all() if not tag.is_internal)
    known = tuple(parse_reference(tag.reference).familiar for tag in shown)
    raise ImageMissing(name, known)


def inspect_builtin(home: Path, name: str) -> dict[str, Any]:
    image = catalog.load_image(home, name)
    return {
        "name": image.name,
        "digest": image.digest,
        "size_bytes": image.size_bytes,
        "user": image.user,
        "workdir": image.workdir,
        "environment": dict(image.environment),
        "root": str(image.root),
        "packages": str(image.packages or ""),
        "used_by": list(image_users(home).get(name, ())),
    }


def inspect_stored(home: Path, store: Store, image: PulledImage) -> dict[str, Any]:
    config = image.config
    tag = store.tags.find(image.reference)
    return {
        "name": parse_reference(image.reference).familiar,
        "reference": image.reference,
        "digest": image.digest,
        "source_digest": tag.source_digest if tag else image.digest,
        "config_digest": image.config_digest,
        "platform": "/".join(filter(None, (config.os, config.architecture, config.variant))),
        "size_bytes": image.size_bytes,
        "root_bytes": _root_bytes(home, image.digest),
        "created": config.created,
        "pulled_at": tag.pulled_at if tag else None,
        "entrypoint": list(config.entrypoint),
        "command": list(config.command),
        "environment": dict(config.environment),
        "user": config.user,
        "workdir": config.workdir,
        "labels": dict(config.labels),
        "wants": _wanted(config.labels),
        "exposed_ports": list(config.exposed_ports),
        "volumes": list(config.volumes),
        "stop_signal": config.stop_signal,
        "layers": [layer.digest for layer in image.layers],
        "used_by": list(image_users(home).get(image.reference, ())),
    }


def is_builtin(home: Path, name: str) -> bool:
    is_plain = "/" not in name and ":" not in name
    return is_plain and (catalog.shelf_of(home, name) / "current").is_file()


def describe(home: Path, name: str, *, is_deep: bool = False) -> dict[str, Any]:
    """All that is known of an image; with `is_deep` after every byte of it was checked."""
    if is_builtin(home, name):
        if is_deep:
            catalog.verify_image(home, name)
        return inspect_builtin(home, name)
    store = Store(home)
    with store.opened():
        image = find_stored(store, name)
        if is_deep:
            store.verify(image)
        return inspect_stored(home, store, image)


def remove(home: Path, name: str) -> None:
    """Raises ImageInUse while a sandbox, running or not, is made of it."""
    if is_builtin(home, name):
        if users := image_users(home).get(name):
            raise ImageInUse(name, ", ".join(users))
        catalog.remove_image(home, name)
        return
    store = Store(home)
    with store.opened():
        reference = find_stored(store, name).reference
    if users := image_users(home).get(full_name(reference)):
        raise ImageInUse(name, ", ".join(users))
    obtaining.remove(home, reference, lambda: images_in_use(home))


def _wanted(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What labels of ours say, as the options that say the same; or why one says nothing."""
    from crucible.sandbox.labels import read_labels

    wishes, unused = read_labels(labels)
    said: dict[str, str] = {}
    for wish in wishes:
        said[wish.label] = f"{said.get(wish.label, '')} {wish.said}".strip()
    for text in unused:
        label, _, why = text.partition(": ")
        said[label] = f"not used: {why}"
    return said
