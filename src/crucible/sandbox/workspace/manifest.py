"""What a tree held at one moment: the entries of TREE, by name. The one taken after the upload is the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from crucible.errors import PathRefused, StateDamaged
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.names import shown, split_name

MAX_ENTRIES = 250_000
_TYPES: tuple[EntryType, ...] = get_args(EntryType)


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


def manifest_lines(manifest: Manifest) -> Iterator[bytes]:
    """One JSON object a line, as the owner writes baselines and sends trees."""
    for entry in manifest.entries.values():
        values = {name: getattr(entry, name) for name in Entry.__slots__}
        values["name"] = entry.name.decode(errors="surrogateescape")
        values["target"] = entry.target.decode(errors="surrogateescape")
        values["sha256"] = entry.sha256.hex()
        yield json.dumps(values).encode() + b"\n"


def parse_manifest(lines: Iterable[bytes]) -> Manifest:
    """Raises StateDamaged for a line that is no entry, PathRefused for an entry that cannot be."""
    return collect(_entry(line) for line in lines)


def _entry(line: bytes) -> Entry:
    try:
        values = json.loads(line)
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateDamaged(f"A line of the workspace's manifest cannot be read: {error}") from None
