"""Dockerfiles and recipes."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class BuildFileInvalid(Refused):
    """A Dockerfile or a recipe that cannot be built as it is written. Line 0 is the file as a whole."""

    code = "build-file-invalid"

    def __init__(self, origin: str, line: int, why: str, *, hint: str = "") -> None:
        place = f"line {line} of {origin}" if line else origin
        super().__init__(f"In {place}: {why}", hint=hint)


class BuildStepFailed(CrucibleError):
    """A RUN step ended with a status of its own, which is the build's then. Nothing was named."""

    code = "build-step-failed"

    def __init__(self, step: str, status: int, *, hint: str = "") -> None:
        shown = step if len(step) <= 80 else step[:77] + "..."
        super().__init__(f"The step `{shown}` failed with status {status}", hint=hint)
        self.exit_status = status


class ImageNotBuilt(CrucibleError):
    """The image that a project wants could not be built. The status is ours, as no command was run."""

    code = "image-not-built"

    def __init__(self, origin: str, why: str) -> None:
        super().__init__(
            f"The image that {origin} wants was not built: {why}",
            hint="--image names another image; --no-devcontainer leaves the file aside",
        )
