"""A project's devcontainer.json as settings of a sandbox; crucible.toml, variables and options go before it."""

from __future__ import annotations

import os
import shlex
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
        directory = os.path.dirname(found.path)  # noqa: PTH120 - only for the hint
        file = shlex.quote(os.path.normpath(os.path.join(directory, found.build.dockerfile)))  # noqa: PTH118
        context = shlex.quote(os.path.normpath(os.path.join(directory, found.build.context)))  # noqa: PTH118
        raise BadSetting(
            f"{found.path} wants an image that is built from {found.build.dockerfile!r}",
            hint=f"Build it with `crucible image build -t NAME -f {file} {context}` and give --image NAME;"
            " --no-devcontainer leaves the file aside",
        )
