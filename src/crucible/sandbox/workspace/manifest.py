"""What a tree held at one moment: the entries of TREE, by name. The one taken after the upload is the baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import get_args

from crucible.errors import PathRefused, StateDamaged
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.names import shown, split_name

MAX_ENTRIES = 250_000
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    entries: Mapping[bytes, Entry] = field(default_factory=dict)


def collect(entries: Iterable[Entry], *, max_entries: int = MAX_ENTRIES) -> Manifest:
    """The entries a guest sent, checked: sane names, each once, files with their hash, not too many."""
    found: dict[bytes, Entry] = {}
    for entry in entries:
        if len(found) == max_entries:
            raise PathRefused(f"The workspace holds more than {max_entries} entries")
        if not entry.name or b"/".join(split_name(entry.name)) != entry.name:
            raise PathRefused(
                f"The sandbox sent the name {shown(entry.name[:200])!r}, which is none"
            )
        if entry.name in found:
            raise PathRefused(f"The sandbox sent {shown(entry.name)} twice")
        if entry.type == "file" and len(entry.sha256) != 32:
            raise PathRefused(f"The sandbox sent {shown(entry.name)} without its hash")
        found[entry.name] = entry
    return Manifest(entries=found)


def dump_manifest(manifest: Manifest) -> bytes:
    rows = [
        [
            os.fsdecode(entry.name),
            entry.type,
            entry.mode,
            entry.size,
            entry.mtime_ns,
            os.fsdecode(entry.target),
            entry.sha256.hex(),
        ]
        for entry in manifest.entries.values()
    ]
    return json.dumps({"format": _FORMAT, "entries": rows}, separators=(",", ":")).encode()


def load_manifest(data: bytes) -> Manifest:
    """Raises StateDamaged for what `dump_manifest` did not write."""
    try:
        content = json.loads(data)
        if content["format"] != _FORMAT:
            raise StateDamaged("The workspace's baseline has a format this version does not know")
        return collect(_entry(row) for row in content["entries"])
    except (ValueError, KeyError, TypeError, PathRefused) as error:
        raise StateDamaged(f"The workspace's baseline cannot be read: {error}") from None


def _entry(row: list[object]) -> Entry:
    name, type_, mode, size, mtime_ns, target, sha256 = row
    known: tuple[EntryType, ...] = get_args(EntryType)
    return Entry(
        name=os.fsencode(str(name)),
        type=known[known.index(str(type_))],
        mode=int(str(mode)),
        size=int(str(size)),
        mtime_ns=int(str(mtime_ns)),
        uid=0,
        gid=0,
        target=os.fsencode(str(target)),
        sha256=bytes.fromhex(str(sha256)),
    )
