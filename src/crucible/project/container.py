"""A project's devcontainer.json as settings of a sandbox; crucible.toml, variables and options go before it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from crucible.errors import BadSetting
from crucible.project.devcontainer import DevContainer, find_devcontainer, read_devcontainer
from crucible.sandbox.mounts import is_within
from crucible.sandbox.workspace.credentials import is_named_credential

_UNFIT = re.compile(r"[^a-z0-9]+")


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


def build_settings(found: DevContainer, directory: str) -> tuple[str, dict[str, Any]] | None:
    """The name of the image that the file wants built here, and of what; None where it wants none.

    Anybody's project can hold such a file: it builds from files of the project alone, and gets no name to choose.
    """
    if found.build is None:
        return None
    project = os.path.realpath(directory)
    fields: dict[str, Any] = {
        "dockerfile": _inside(found, project, found.build.dockerfile, "build.dockerfile"),
        "context": _inside(found, project, found.build.context, "build.context"),
        "target": found.build.target,
        "args": dict(found.build.arguments),
    }
    stem = _UNFIT.sub("-", os.path.basename(project).lower()).strip("-")[:60].strip("-")  # noqa: PTH119
    mark = hashlib.sha256(os.fsencode(project)).hexdigest()[:12]
    name = f"localhost/devcontainer-{stem or 'project'}-{mark}"
    return name, {key: value for key, value in fields.items() if value}


def _inside(found: DevContainer, project: str, path: str, key: str) -> str:
    """Where a path of the file leads, links followed: into the project, and to no credential of it."""
    beside = os.path.dirname(found.path)  # noqa: PTH120 - what is joined may hold anything
    real = os.path.realpath(os.path.join(beside, path))  # noqa: PTH118
    hint = (
        "Build it with `crucible image build` and give --image; --no-devcontainer leaves it aside"
    )
    if not is_within(real, project):
        raise BadSetting(f"{key} in {found.path} leads out of the project: {path!r}", hint=hint)
    if is_named_credential(Path(real)):
        raise BadSetting(f"{key} in {found.path} may be a credential: {path!r}", hint=hint)
    return real
