"""Entries of a guest's tree as JSON: what baselines are made of, and what the service answers.

A name or a target is bytes; what of them is no UTF-8 travels as surrogates and comes back as it was.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from crucible.errors import StateDamaged
from crucible.sandbox.session import Entry, EntryType

_TYPES: tuple[EntryType, ...] = get_args(EntryType)


def as_fields(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name.decode(errors="surrogateescape"),
        "type": entry.type,
        "mode": entry.mode,
        "size": entry.size,
        "mtime_ns": entry.mtime_ns,
        "uid": entry.uid,
        "gid": entry.gid,
        "target": entry.target.decode(errors="surrogateescape"),
        "sha256": entry.sha256.hex(),
    }


def from_fields(values: Any) -> Entry:
    """Raises StateDamaged for what is no entry."""
    try:
        return Entry(
            name=values["name"].encode(errors="surrogateescape"),
            type=_TYPES[_TYPES.index(values["type"])],
            mode=int(values["mode"]),
            size=int(values["size"]),
            mtime_ns=int(values["mtime_ns"]),
            uid=int(values["uid"]),
            gid=int(values["gid"]),
            target=values["target"].encode(errors="surrogateescape"),
            sha256=bytes.fromhex(values["sha256"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise StateDamaged(f"An entry of a tree cannot be read: {error}") from None


def to_line(entry: Entry) -> bytes:
    return json.dumps(as_fields(entry)).encode() + b"\n"


def from_line(line: bytes) -> Entry:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"An entry of a tree cannot be read: {error}") from None
    return from_fields(values)
