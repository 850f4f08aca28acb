"""What a sandbox may be promised that runs elsewhere. The rest is refused by name, never dropped."""

from __future__ import annotations

from crucible.errors import Unsupported
from crucible.sandbox.session import Command
from crucible.sandbox.spec import (
    DEFAULT_CONNECTIONS,
    DEFAULT_DISK_MIB,
    DEFAULT_MEMORY_MIB,
    SandboxSpec,
)

NAME = "remote_e2b"
# In a sandbox's directory for as long as it may be there: the id that the provider knows it by.
ID_NAME = "remote-id"
# Stands where a user's name would, for the one that the template gives its commands.
USUAL_USER = "(the template's)"
_HERE = "Use a machine of this host: --provider local_microvm"


def check(spec: SandboxSpec) -> None:
    """Raises Unsupported for the first promise of the specification that could not be kept."""
    for asked, what in (
        (spec.network == "allowlist" or spec.allow or spec.deny, "keeps no rules for the network"),
        (spec.secrets, "has no gateway that could add secrets to requests"),
        (any(":volume" in mount for mount in spec.mounts), "has no volumes of this host"),
        (spec.mounts, "takes no copies of files of this host"),
        (spec.images, "cannot put further images beside the first"),
        (spec.ports, "cannot publish ports: its service carries HTTP to them, and no bytes"),
        (spec.read_only, "cannot make the disk read-only"),
        (spec.drop_capabilities, "cannot take capabilities away"),
        (spec.processes, "cannot limit the processes of a command"),
        (spec.memory_mib != DEFAULT_MEMORY_MIB, "gives the memory that the template has"),
        (spec.cpus != 1, "gives the processors that the template has"),
        (spec.disk_mib != DEFAULT_DISK_MIB, "gives the disk that the template has"),
        (
            spec.budget_tokens or spec.budget_usd or (spec.charges and spec.network != "off"),
            "has no gateway that could count calls of models",
        ),
        (spec.connections != DEFAULT_CONNECTIONS, "cannot limit connections"),
    ):
        if asked:
            raise Unsupported(f"Backend {NAME!r} {what}", hint=_HERE)


def check_command(command: Command) -> None:
    if command.image:
        raise unsupported("has one image only")
    if command.limits:
        raise unsupported("cannot limit what one command may use")


def unsupported(what: str) -> Unsupported:
    return Unsupported(f"Backend {NAME!r} {what}", hint=_HERE)
