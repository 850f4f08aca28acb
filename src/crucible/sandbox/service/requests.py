"""Fields of a client's request → typed values. Whatever is missing or of the wrong kind is refused."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from crucible.errors import BadSetting
from crucible.images.catalog import Image
from crucible.sandbox.session import LIMIT_PROCESSES, Command
from crucible.sandbox.spec import LARGEST_TIMEOUT_S, SandboxSpec, parse_spec

if TYPE_CHECKING:
    from crucible.network.secrets import Secret

__all__ = [
    "field",
    "given_secrets",
    "name_field",
    "optional",
    "parse_command",
    "parse_spec",
    "path_field",
    "whole",
]

_Kind = TypeVar("_Kind")
_LARGEST_ARGUMENTS = 60_000
_MOST_WORDS = 4000
_LARGEST_SIDE = 65535


def field(request: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    value = request.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadSetting(f"The request's {name!r} is missing or not of kind {kind.__name__}")
    if isinstance(value, str):
        encoded(value)
    return value


def optional(request: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind | None:
    return None if request.get(name) is None else field(request, name, kind)


def name_field(request: Mapping[str, Any], name: str = "name") -> str:
    """A name of ours, which may or may not exist. No name holds bytes that are not text."""
    value = field(request, name, str)
    if not value.isprintable():
        raise BadSetting(f"The request's {name!r} is not a name")
    return value


def path_field(request: Mapping[str, Any]) -> bytes:
    """An absolute path of the guest."""
    path = encoded(field(request, "path", str))
    if not path.startswith(b"/"):
        raise BadSetting(f"{request['path']!r} is not an absolute path in the sandbox")
    return path


def whole(value: object, name: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadSetting(
            f"{value!r} is no {name}: it must be a whole number from {least} to {most}"
        )
    return value


def encoded(text: str) -> bytes:
    """Bytes of the host or the guest, as Python carries them in text."""
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:
        raise BadSetting(f"{text!r} has characters that cannot be") from None
    if b"\0" in data:
        raise BadSetting(f"{text!r} has a NUL byte in it")
    return data


def parse_command(
    values: Mapping[str, Any],
    spec: SandboxSpec,
    image: Image,
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    has_directory: bool = False,
) -> Command:
    """The command as the guest will get it: image, sandbox and request each add to its surroundings.

    With `has_directory` one of the host was copied in, and that is where commands begin.
    """
    inside = optional(values, "image", str) or ""
    usual_workdir = spec.workdir or (image.workspace if has_directory else image.workdir)
    usual_user = spec.user or image.user
    if inside:
        # What the sandbox was given for its commands means the first image.
        image = image.part(inside)
        usual_workdir, usual_user = image.workdir, image.user
    argv = command_words(values, image)
    own_workdir = optional(values, "workdir", str)
    environment = {
        **dict(image.environment),
        **variables,
        **spec.environment,
        **(optional(values, "environment", dict) or {}),
    }
    pairs = {_variable(key): _value(key, value) for key, value in environment.items()}
    size = sum(map(len, argv)) + sum(len(key) + len(value) for key, value in pairs.items())
    if size > _LARGEST_ARGUMENTS or len(argv) > _MOST_WORDS or len(pairs) > _MOST_WORDS:
        raise BadSetting(
            f"The command and its environment are too long ({size} bytes)",
            hint="Copy a script in with `crucible cp` and run that",
        )
    return Command(
        argv=argv,
        image=inside,
        environment=pairs,
        workdir=encoded(own_workdir or usual_workdir),
        makes_workdir=not own_workdir,
        user=optional(values, "user", str) or usual_user,
        has_terminal=values.get("terminal") is True,
        wants_input=values.get("wants_input") is True,
        rows=max(1, whole(values.get("rows", 24), "height", 0, _LARGEST_SIDE)),
        columns=max(1, whole(values.get("columns", 80), "width", 0, _LARGEST_SIDE)),
        timeout_s=_timeout_s(values.get("timeout_s")),
        limits={LIMIT_PROCESSES: spec.processes} if spec.processes else {},
    )


def given_secrets(request: Mapping[str, Any]) -> Sequence[Secret]:
    """Values come beside the specification, which is written down; they are not."""
    if not request.get("secrets"):
        return ()
    from crucible.sandbox.doors.secrets import parse_given

    return parse_given(request["secrets"])


def command_words(values: Mapping[str, Any], image: Image) -> list[bytes]:
    """What is run. A request with an `entrypoint`, even none of its own, also runs what the image says.

    As container engines have it: words given replace the image's command, an entrypoint given replaces both.
    """
    words = _words(values.get("argv"), "argv")
    if "entrypoint" in values:
        if values["entrypoint"] is None:
            before, usual = image.entrypoint, image.command
        else:
            before, usual = tuple(_words(values["entrypoint"], "entrypoint")), ()
        words = [*before, *(words or usual)]
        if not words:
            raise BadSetting(
                f"Image {image.name!r} has no command of its own",
                hint=f"Give one, like `crucible run --image {image.name} -- /bin/sh`",
            )
    if not words:
        raise BadSetting("There is no command", hint="Give one, like `python3 -c 'print(1)'`")
    return [encoded(item) for item in words]


def _words(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadSetting(f"The request's {name!r} is not a list of words")
    return value


def _variable(name: object) -> bytes:
    if not isinstance(name, str) or not name or "=" in name:
        raise BadSetting(f"{name!r} is not the name of a variable")
    return encoded(name)


def _value(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise BadSetting(f"The variable {name!r} is not text")
    return encoded(value)


def _timeout_s(value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(seconds := float(value)):  # type: ignore[arg-type]
        raise BadSetting(f"{value!r} is not a time limit")
    if not 0 < seconds <= LARGEST_TIMEOUT_S:
        raise BadSetting(f"A time limit of {seconds:g} s is out of range", hint="At most 30d")
    return seconds
