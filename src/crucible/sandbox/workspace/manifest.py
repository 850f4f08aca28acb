"""What a tree held at one moment: the entries of TREE, by name. The one taken after the upload is the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from crucible.errors import PathRefused
from crucible.sandbox import entries
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.names import shown, split_name

MAX_ENTRIES = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    entries: Mapping[bytes, Entry] = field(default_factory=dict)


def collect(found: Iterable[Entry], *, max_entries: int = MAX_ENTRIES) -> Manifest:
    """The entries a guest sent, checked: sane names, each once, files with their hash, not too many."""
    kept: dict[bytes, Entry] = {}
    for entry in found:
        if len(kept) == max_entries:
            raise PathRefused(f"The workspace holds more than {max_entries} entries")
        if not entry.name or b"/".join(split_name(entry.name)) != entry.name:
            raise PathRefused(
                f"The sandbox sent the name {shown(entry.name[:200])!r}, which is none"
            )
        if entry.name in kept:
            raise PathRefused(f"The sandbox sent {shown(entry.name)} twice")
        if entry.type == "file" and len(entry.sha256) != 32:
            raise PathRefused(f"The sandbox sent {shown(entry.name)} without its hash")
        kept[entry.name] = entry
    return Manifest(entries=kept)


def manifest_lines(manifest: Manifest) -> Iterator[bytes]:
    """One JSON object a line, as the owner writes baselines and sends trees."""
    return map(entries.to_line, manifest.entries.values())


def parse_manifest(lines: Iterable[bytes]) -> Manifest:
    """Raises StateDamaged for a line that is no entry, PathRefused for an entry that cannot be."""
    return collect(map(entries.from_line, lines))
