"""The verbs of the contract. Each asks the owner, as the command line does, and writes down what it answers."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any, Final

from crucible.cli.grammar import Arguments, BadUsage
from crucible.cli.provider import lines
from crucible.cli.provider.requests import STDIN, read_request
from crucible.errors import BadSetting, CrucibleError, OwnerUnreachable

LARGEST_FILE: Final = 1 << 30
_PIECE: Final = 1 << 16
_SPEC = (
    "image", "memory_mib", "cpus", "disk_mib", "environment", "workdir", "user", "profile", "network",
    "allow", "deny", "ttl_s", "idle_timeout_s", "min_isolation", "backend",
)  # fmt: skip
_SHOWN = ("name", "state", "backend", "isolation", "image_digest", "created_at", "note")


class TooLarge(CrucibleError):
    """A file, on its way in or out, is larger than one may be."""

    code = "too-large"
    exit_status = 126


def probe(arguments: Arguments) -> int:
    """Whether sandboxes can be run here, and how strong the boundary around them is."""
    return lines.succeed(**host_facts())


def host_facts() -> dict[str, Any]:
    """Raises what stands in the way of a sandbox of the ordinary kind."""
    import asyncio

    import crucible
    from crucible import assemble
    from crucible.config import load_config
    from crucible.sandbox.choice import choose_backend
    from crucible.sandbox.spec import SandboxSpec

    backends = assemble.backends(load_config())
    backend, isolation = asyncio.run(choose_backend(backends, SandboxSpec()))
    return {"crucible": crucible.__version__, "backend": backend.name, "isolation": str(isolation)}


def create(arguments: Arguments) -> int:
    """A sandbox that runs when this returns, and until it is destroyed."""
    asked = read_request(arguments, ("name", *_SPEC))
    if asked is None:
        asked = {"name": arguments.optional_word("NAME"), **_spec_words(arguments)}
    name = asked.pop("name", None) or f"mvm-{os.urandom(5).hex()}"
    answer = _ask("create", {"name": name, "spec": asked, "start": True, "upload": False})
    return lines.succeed(sandbox=_shown(answer["sandbox"]))


def execute(arguments: Arguments) -> int:
    """Runs a command to its end. That it fails is a result: the status here is 0."""
    from crucible.cli.provider.streaming import stream_command
    from crucible.cli.service import owner
    from crucible.sandbox.spec import parse_duration_s, parse_environment

    asked = read_request(
        arguments, ("name", "argv", "environment", "workdir", "user", "timeout_s", "input")
    )
    if asked is None:
        limit = arguments.value("timeout")
        asked = {
            "name": arguments.optional_word("NAME"),
            "argv": arguments.words("CMD"),
            "environment": parse_environment(arguments.values("env")),
            "workdir": arguments.value("workdir") or "",
            "user": arguments.value("user") or "",
            "timeout_s": None if limit is None else parse_duration_s(limit),
            "input": arguments.flag("input"),
        }
    has_input = asked.pop("input", False) is True
    name = asked.pop("name", None)
    request = {
        "verb": "exec",
        "name": _name(name),
        "command": {**asked, "wants_input": has_input},
    }
    answer, _ = stream_command(owner().connect, request, has_input=has_input)
    return lines.succeed(event="exit", exit=answer.get("exit"), limit=answer.get("limit"))


def write(arguments: Arguments) -> int:
    """Standard input, after the request if there is one, becomes a file of the sandbox, whole or not at all."""
    asked = read_request(arguments, ("name", "path", "mode", "parents"))
    if asked is None:
        asked = {
            "name": arguments.optional_word("NAME"),
            "path": arguments.optional_word("PATH"),
            "mode": _octal(arguments.value("mode") or "644"),
            "parents": arguments.flag("parents"),
        }
    elif "mode" in asked:
        asked["mode"] = _octal(asked["mode"])
    asked["name"] = _name(asked.get("name"))
    answer = _ask("write", asked, upload=_Input())
    return lines.succeed(size=answer.get("count"))


def read(arguments: Arguments) -> int:
    """A file of the sandbox, in pieces as they come."""
    from crucible.client.flows import CallSink
    from crucible.client.protocol import OUTPUT

    asked = read_request(arguments, ("name", "path"))
    if asked is None:
        asked = {"name": arguments.optional_word("NAME"), "path": arguments.optional_word("PATH")}
    size = 0

    def take(data: bytes) -> None:
        nonlocal size
        size += len(data)
        if size > LARGEST_FILE:
            raise TooLarge(f"The file is larger than {LARGEST_FILE >> 30} GiB")
        lines.write_event("data", data=base64.b64encode(data).decode())

    fields = {**asked, "name": _name(asked.get("name")), "length": LARGEST_FILE + 1}
    _ask("read", fields, sinks={OUTPUT: CallSink(take)})
    return lines.succeed(event="end", size=size)


def list_sandboxes(arguments: Arguments) -> int:
    from crucible.cli.commands.listing import sandbox_records, state_of
    from crucible.sandbox.records import record_as_json

    found = [
        _shown({**record_as_json(record), "state": state_of(record)})
        for record in sandbox_records()
    ]
    return lines.succeed(sandboxes=found)


def destroy(arguments: Arguments) -> int:
    asked = read_request(arguments, ("name",)) or {"name": arguments.optional_word("NAME")}
    _ask("remove", {"name": _name(asked.get("name")), "force": True})
    return lines.succeed()


def _ask(verb: str, fields: dict[str, Any], **further: Any) -> dict[str, Any]:
    from crucible.cli.service import owner
    from crucible.client.exchange import Unseen, ask

    return ask(owner().connect, {"verb": verb, **fields}, progress=Unseen(), **further)


def _name(given: object) -> str:
    from crucible.sandbox.spec import check_name

    if not isinstance(given, str):
        raise BadUsage("The name of the sandbox is missing")
    return check_name(given)


def _spec_words(arguments: Arguments) -> dict[str, Any]:
    from crucible.cli.specs import whole_number
    from crucible.sandbox.spec import parse_duration_s, parse_size_mib

    spec: dict[str, Any] = {}
    for option in ("image", "network", "profile", "user", "workdir"):
        if (text := arguments.value(option)) is not None:
            spec[option] = text
    for option in ("memory", "disk"):
        if (text := arguments.value(option)) is not None:
            spec[f"{option}_mib"] = parse_size_mib(text)
    if (text := arguments.value("cpus")) is not None:
        spec["cpus"] = whole_number(text, "--cpus")
    if (text := arguments.value("ttl")) is not None:
        spec["ttl_s"] = parse_duration_s(text)
    return spec


def _octal(text: object) -> int:
    if not isinstance(text, str) or not 1 <= len(text) <= 4 or not set(text) <= set("01234567"):
        raise BadSetting(f"{text!r} is not a mode", hint="Give it in octal, as text: 644, 755")
    return int(text, 8)


class _Input:
    """Standard input as an upload. What was read cannot be read again for an owner that follows a dead one."""

    def __init__(self) -> None:
        self._size = 0

    def __call__(self) -> Iterator[bytes]:
        if self._size:
            raise OwnerUnreachable(
                "The program that holds the sandboxes ended in the middle of the file",
                hint="Nothing was written; try again",
            )
        while data := os.read(STDIN, _PIECE):
            self._size += len(data)
            if self._size > LARGEST_FILE:
                raise TooLarge(f"More than {LARGEST_FILE >> 30} GiB came on standard input")
            yield data


def _shown(record: object) -> dict[str, Any]:
    fields = record if isinstance(record, dict) else {}
    spec = fields.get("spec")
    image = spec.get("image") if isinstance(spec, dict) else None
    return {**{name: fields.get(name) for name in _SHOWN}, "image": image}
