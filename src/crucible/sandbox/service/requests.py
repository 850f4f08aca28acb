"""Fields of a client's request → typed values. Whatever is missing or of the wrong kind is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from crucible.errors import BadSetting
from crucible.images.catalog import Image
from crucible.sandbox.isolation import parse_isolation
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

_Kind = TypeVar("_Kind")
_LARGEST_ARGUMENTS = 60_000


def field(request: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    value = request.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadSetting(f"The request's {name!r} is missing or not of kind {kind.__name__}")
    return value


def optional(request: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind | None:
    return None if request.get(name) is None else field(request, name, kind)


def parse_spec(values: Mapping[str, Any]) -> SandboxSpec:
    known = set(SandboxSpec.__dataclass_fields__)
    if unknown := set(values) - known:
        raise BadSetting(f"A sandbox has no setting {sorted(unknown)[0]!r}")
    given = dict(values)
    if "min_isolation" in given:
        given["min_isolation"] = parse_isolation(str(given["min_isolation"]))
    for name in ("memory_mib", "cpus", "disk_mib"):
        if name in given:
            given[name] = field(given, name, int)
    return SandboxSpec(**given)


def parse_command(values: Mapping[str, Any], spec: SandboxSpec, image: Image) -> Command:
    """The command as the guest will get it: image, sandbox and request each add to its surroundings."""
    argv = [os.fsencode(word) for word in _strings(values.get("argv"), "argv")]
    if not argv:
        raise BadSetting("There is no command", hint="Give one, like `python3 -c 'print(1)'`")
    environment = {
        **dict(image.environment),
        **spec.environment,
        **_pairs(values.get("environment")),
    }
    encoded = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
    size = sum(map(len, argv)) + sum(len(key) + len(value) for key, value in encoded.items())
    if size > _LARGEST_ARGUMENTS or len(argv) > 4000 or len(encoded) > 4000:
        raise BadSetting(
            f"The command and its environment are too long ({size} bytes)",
            hint="Copy a script in with `crucible cp` and run that",
        )
    timeout_s = values.get("timeout_s")
    return Command(
        argv=argv,
        environment=encoded,
        workdir=os.fsencode(str(values.get("workdir") or spec.workdir or image.workdir)),
        user=str(values.get("user") or spec.user or image.user),
        has_terminal=bool(values.get("terminal")),
        wants_input=bool(values.get("wants_input")),
        rows=_dimension(values.get("rows"), 24),
        columns=_dimension(values.get("columns"), 80),
        timeout_s=None if timeout_s is None else float(timeout_s),
    )


def _strings(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadSetting(f"The request's {name!r} is not a list of words")
    if any("\0" in item for item in value):
        raise BadSetting(f"A word of {name!r} has a NUL byte in it")
    return value


def _pairs(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadSetting("The environment is not a set of names and values")
    return {str(key): str(item) for key, item in value.items()}


def _dimension(value: object, default: int) -> int:
    return min(max(value, 1), 65535) if isinstance(value, int) else default
