"""The image of a request: one that was only guessed gives way to another when it cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crucible.errors import ImageError, ImageMissing, ImageNotFound
from crucible.images.report import NOTICE
from crucible.sandbox.manager import Manager
from crucible.sandbox.placing import place_elsewhere
from crucible.sandbox.service.requests import field, optional
from crucible.sandbox.spec import SandboxSpec
from crucible.values import replace

# That of `sandbox.labels`, which is loaded only for an image that has some.
PREFIX = "dev.crucible."


async def with_image(manager: Manager, spec: SandboxSpec, fallback: str | None) -> SandboxSpec:
    """The specification with an image that is here. `fallback` serves where nobody named the image."""
    if fallback is None:
        return spec
    if await place_elsewhere(manager.machines, spec) is not None:
        return replace(spec, image=fallback)
    try:
        await manager.images.find(spec.image, is_guess=True)
    except (ImageError, ImageMissing, ImageNotFound) as error:
        manager.report(NOTICE, f"{error.message}; image {fallback} serves instead of {spec.image}")
        return replace(spec, image=fallback)
    return spec


async def with_labels(
    manager: Manager, spec: SandboxSpec, request: Mapping[str, Any]
) -> SandboxSpec:
    """The specification with what the labels of its image say of it, which is told.

    The request's `settled` are the fields that somebody has set; without it, all that its `spec` has.
    """
    if await place_elsewhere(manager.machines, spec) is not None:
        return spec
    image = await manager.images.find(spec.image)
    if not any(name.startswith(PREFIX) for name, _ in image.labels):
        return spec
    from crucible.sandbox.labels import judge, told

    settled = optional(request, "settled", list)
    judged = judge(
        spec,
        image.labels,
        settled=field(request, "spec", dict) if settled is None else settled,
        accepts=request.get("accept_labels") is True,
    )
    for line in told(image.name, judged):
        manager.report(NOTICE, line)
    return judged.spec
