"""Images as people look at them: a row of the list for each."""

from __future__ import annotations

import time

from crucible.cli import render
from crucible.images.oci.digests import short
from crucible.sandbox.known_images import KnownImage


def row(image: KnownImage) -> tuple[str, ...]:
    age = "built here"
    if image.pulled_at is not None:
        age = f"{render.duration(time.time() - image.pulled_at)} ago"
    digits = short(image.digest) if ":" in image.digest else image.digest[:12]
    return (
        image.name,
        digits,
        render.size(image.size_bytes) if image.size_bytes else "-",
        render.size(image.root_bytes) if image.root_bytes else "-",
        ", ".join(image.used_by) or "-",
        age,
    )
