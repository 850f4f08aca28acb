"""A project's devcontainer.json as settings of a sandbox; crucible.toml, variables and options go before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crucible.errors import BadSetting
from crucible.project.devcontainer import DevContainer, find_devcontainer, read_devcontainer


def container_settings(directory: str) -> tuple[DevContainer, dict[str, Any]] | None:
    """What the file sets, by the field of the specification; None where there is none."""
    path = find_devcontainer(Path(directory))
    if path is None:
        return None
    found = read_devcontainer(path)
    fields = {
        "image": found.image,
        "environment": dict(found.environment),
        "user": found.user,
        "ports": [f"0:{port}" for port in found.ports],
        "after_create": list(found.after_create),
        "ignored": list(found.ignored),
    }
    return found, {name: value for name, value in fields.items() if value}


def refuse_build(found: DevContainer) -> None:
    """For when nothing else names an image."""
    if found.build is not None:
        raise BadSetting(
            f"{found.path} wants an image that is built from {found.build.dockerfile!r}",
            hint="Name an image with --image, or leave the file aside with --no-devcontainer",
        )
