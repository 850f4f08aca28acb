"""Images by their names: the ones that are here, or should be."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused, SetupError


class ImageError(CrucibleError):
    """An image could not be fetched, or is not what it says it is."""

    code = "image"


class ImageMissing(Refused):
    """`available` are those that are here. Any other name may be one that a registry knows."""

    code = "image-missing"

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        shown = name if len(name) <= 120 else name[:117] + "..."
        if not available and name == "base":
            hint = "Build the base image with `crucible setup`"
        elif not available:
            hint = f"Fetch it with `crucible image pull {shown}`"
        else:
            hint = f"Fetch it with `crucible image pull {shown}`; here are: {', '.join(available)}"
        super().__init__(f"Image {shown!r} was not found", hint=hint)


class BadReference(Refused):
    """What was given as an image's name can be none."""

    code = "bad-reference"

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 120 else text[:117] + "..."
        super().__init__(
            f"{shown!r} is not an image's name: {why}",
            hint="Names look like python:3.12, ghcr.io/owner/image:tag or oci-archive:FILE",
        )


class ImageNotFound(Refused):
    """The registry or the archive has no such image."""

    code = "image-not-found"

    def __init__(self, reference: str, place: str, *, hint: str = "") -> None:
        super().__init__(f"Image `{reference}` was not found in {place}", hint=hint)


class ImageInUse(Refused):
    code = "image-in-use"

    def __init__(self, reference: str, users: str) -> None:
        super().__init__(
            f"Image `{reference}` is in use by {users}",
            hint="Remove the sandboxes that use it first (`crucible list`)",
        )


class ImageDamaged(SetupError):
    code = "image-damaged"

    def __init__(
        self, name: str, why: str, *, hint: str = "Rebuild it with `crucible setup`"
    ) -> None:
        super().__init__(f"Image {name!r} is damaged: {why}", hint=hint)
