"""Images as people look at them: the built-in one and those from elsewhere, in one list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crucible.cli import render
from crucible.errors import BadReference, ImageDamaged, ImageMissing
from crucible.images import catalog, pulled
from crucible.images.oci.digests import short
from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store
from crucible.sandbox.image_use import image_users

_DIGITS = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLine:
    """`size_bytes` is what was sent, `root_bytes` what the sandboxes' root takes. Images may share both."""

    name: str
    reference: str
    digest: str
    size_bytes: int
    root_bytes: int
    layers: int
    used_by: tuple[str, ...]
    pulled_at: float | None

    def row(self) -> tuple[str, ...]:
        import time

        age = "built here"
        if self.pulled_at is not None:
            age = f"{render.duration(time.time() - self.pulled_at)} ago"
        digits = short(self.digest) if ":" in self.digest else self.digest[:12]
        return (
            self.name,
            digits,
            render.size(self.size_bytes) if self.size_bytes else "-",
            render.size(self.root_bytes) if self.root_bytes else "-",
            ", ".join(self.used_by) or "-",
            age,
        )


def known_images(home: Path) -> list[ImageLine]:
    """The built-in ones first."""
    users = image_users(home)
    lines = [
        ImageLine(
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
            ImageLine(
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
        "pulled": render.moment(tag.pulled_at) if tag else "",
        "entrypoint": list(config.entrypoint),
        "command": list(config.command),
        "environment": dict(config.environment),
        "user": config.user,
        "workdir": config.workdir,
        "labels": dict(config.labels),
        "exposed_ports": list(config.exposed_ports),
        "volumes": list(config.volumes),
        "stop_signal": config.stop_signal,
        "layers": [layer.digest for layer in image.layers],
        "used_by": list(image_users(home).get(image.reference, ())),
    }
