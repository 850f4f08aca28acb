"""The image of a request: one that was only guessed gives way to another when it cannot be had."""

from __future__ import annotations

from crucible.errors import ImageError, ImageMissing, ImageNotFound
from crucible.images.report import NOTICE
from crucible.sandbox.manager import Manager
from crucible.sandbox.spec import SandboxSpec


async def with_image(manager: Manager, spec: SandboxSpec, fallback: str | None) -> SandboxSpec:
    """The specification with an image that is here. `fallback` serves where nobody named the image."""
    if fallback is None:
        return spec
    try:
        await manager.image(spec.image, is_guess=True)
    except (ImageError, ImageMissing, ImageNotFound) as error:
        manager.report(NOTICE, f"{error.message}; image {fallback} serves instead of {spec.image}")
        from dataclasses import replace

        return replace(spec, image=fallback)
    return spec
