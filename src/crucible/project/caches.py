"""Volumes that the command line names, and the caches of package managers, which are volumes at a known place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from crucible.errors import BadSetting
from crucible.sandbox.mounts import parse_volume

_PLACE = "/var/cache/crucible"


class Cache(NamedTuple):
    """`variables` tell the package manager where its cache lies."""

    target: str
    variables: dict[str, str]


CACHES = {
    "pip": Cache(f"{_PLACE}/pip", {"PIP_CACHE_DIR": f"{_PLACE}/pip"}),
    "npm": Cache(f"{_PLACE}/npm", {"npm_config_cache": f"{_PLACE}/npm"}),
    "cargo": Cache(f"{_PLACE}/cargo", {"CARGO_HOME": f"{_PLACE}/cargo"}),
    "go": Cache(
        f"{_PLACE}/go", {"GOMODCACHE": f"{_PLACE}/go/mod", "GOCACHE": f"{_PLACE}/go/build"}
    ),
}


def add_volumes(fields: dict[str, Any], volumes: Sequence[str], caches: Sequence[str]) -> None:
    """Adds them to the fields of a specification."""
    mounts = [parse_volume(text) for text in volumes]
    for name in dict.fromkeys(caches):
        if name not in CACHES:
            raise BadSetting(
                f"There is no cache of {name!r}", hint=f"Use one of {', '.join(CACHES)}"
            )
        mounts.append(parse_volume(f"cache-{name}:{CACHES[name].target}"))
        fields["environment"] = {**CACHES[name].variables, **fields.get("environment", {})}
    fields["mounts"] = [*fields.get("mounts", ()), *map(str, mounts)]
