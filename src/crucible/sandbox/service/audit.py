"""One line per command that was run: who, what, where, how strongly isolated, how it ended."""

from __future__ import annotations

from typing import Any

from crucible.sandbox.limits import Limit
from crucible.sandbox.records import Records, SandboxRecord
from crucible.sandbox.session import Exit
from crucible.sandbox.spec import SandboxSpec


def policy_of(spec: SandboxSpec) -> dict[str, Any]:
    """What the sandbox was allowed."""
    return {
        "profile": spec.profile,
        "network": spec.network,
        "allow": list(spec.allow),
        "deny": list(spec.deny),
        "secrets": list(spec.secrets),
        "read_only": spec.read_only,
        "drop_capabilities": spec.drop_capabilities,
        "mounts": list(spec.mounts),
        "include_credentials": spec.include_credentials,
    }


def write_audit(
    records: Records,
    verb: str,
    record: SandboxRecord,
    command: dict[str, Any],
    exit: Exit | None,
    stages: list[tuple[str, float]],
    *,
    limit: Limit | None,
    network: list[dict[str, Any]],
) -> None:
    """Without `exit` the command was cut short: its client, its sandbox or its holder went first."""
    records.write_audit(
        verb,
        record.name,
        {
            "argv": command.get("argv"),
            "user": command.get("user"),
            "image": record.spec.image,
            "image_digest": record.image_digest,
            "backend": record.backend,
            "isolation": record.isolation,
            "placed": record.placed,
            "policy": policy_of(record.spec),
            "exit_status": None if exit is None else exit.status,
            "timed_out": exit is not None and exit.timed_out,
            "out_of_memory": exit is not None and exit.out_of_memory,
            "limit": None if limit is None else {"name": limit.name, "value": limit.value},
            "network": network,
            "durations": {name: round(seconds, 6) for name, seconds in stages},
        },
        owner=record.owner,
    )
