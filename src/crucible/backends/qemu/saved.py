"""A machine at rest in a directory: memory, device state, frozen disk layers and a manifest.

Templates and snapshots are both this. Whoever reads one checks it first; whoever writes one
writes it aside and renames it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from crucible.backends.qemu import disks, memory
from crucible.errors import TemplateDamaged
from crucible.values import asdict, dataclass

# Of the manifest and of the machine: with other devices a saved one could not be loaded.
FORMAT = 2
MEMORY_FILE = "ram"
STATE_FILE = "state"
MANIFEST_FILE = "manifest.json"
_MARKS = {"size", "mtime_ns", "sha256"}
_NUMBERS = ("memory_mib", "cpus", "disk_mib")
_LARGEST_NUMBER = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMachine:
    directory: Path
    memory_mib: int
    cpus: int
    accelerator: str
    disk_mib: int
    kernel_digest: str
    agent_digest: str
    image_digest: str
    vmm: str

    @property
    def memory(self) -> Path:
        return self.directory / MEMORY_FILE

    @property
    def state(self) -> Path:
        return self.directory / STATE_FILE

    @property
    def layers(self) -> tuple[Path, ...]:
        return disks.find_chain(self.directory).layers


def describe(saved: SavedMachine) -> None:
    """Writes the manifest: the last step of saving, so a directory with one is complete."""
    facts: dict[str, Any] = {**asdict(saved), "format": FORMAT}
    del facts["directory"]
    facts["files"] = {
        path.name: _marks(path) | {"sha256": _digest(path)}
        for path in (saved.memory, saved.state, *saved.layers[1:])
    }
    temporary = saved.directory / f".{MANIFEST_FILE}"
    with temporary.open("w") as file:
        json.dump(facts, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(saved.directory / MANIFEST_FILE)


def load(directory: Path) -> SavedMachine:
    """Reads and checks a saved machine quickly: every file must be what it was when it was written."""
    facts = _read_manifest(directory)
    for name, marks in facts["files"].items():
        path = directory / name
        try:
            now = _marks(path)
        except OSError:
            raise TemplateDamaged(f"{name} is missing in {directory}") from None
        if now["size"] != marks["size"] or now["mtime_ns"] != marks["mtime_ns"]:
            raise TemplateDamaged(f"{name} in {directory} was changed or cut short")
    return read_facts(directory)


def read_facts(directory: Path) -> SavedMachine:
    """What the manifest says, without looking at the files."""
    facts = _read_manifest(directory)
    known = {name: facts.get(name) for name in SavedMachine.__slots__ if name != "directory"}
    for name, value in known.items():
        is_number = isinstance(value, int) and 0 < value <= _LARGEST_NUMBER
        if not (is_number if name in _NUMBERS else isinstance(value, str)):
            raise TemplateDamaged(f"{directory} has a manifest without a usable {name!r}")
    return SavedMachine(directory=directory, **known)  # type: ignore[arg-type]


def verify(directory: Path) -> None:
    """Reads every byte: for snapshots that were imported and for `doctor`."""
    files = _read_manifest(directory)["files"]
    needed = {
        MEMORY_FILE,
        STATE_FILE,
        *(path.name for path in disks.find_chain(directory).layers[1:]),
    }
    if not needed <= set(files):
        raise TemplateDamaged(f"{directory} has a manifest that leaves files out")
    for name in needed:
        if _digest(directory / name) != files[name]["sha256"]:
            raise TemplateDamaged(
                f"{name} in {directory} has other contents than it was saved with"
            )


def _read_manifest(directory: Path) -> dict[str, Any]:
    try:
        facts = json.loads((directory / MANIFEST_FILE).read_text())
        if facts["format"] != FORMAT:
            raise TemplateDamaged(f"{directory} was saved in another format")
        if not all(marks.keys() >= _MARKS for marks in facts["files"].values()):
            raise TemplateDamaged(f"{directory} has a manifest that leaves marks out")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise TemplateDamaged(f"{directory} has no readable manifest ({error})") from None
    return dict(facts)


def _marks(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _digest(path: Path) -> str:
    """Over every mebibyte that is not all zeroes, and its place: holes and zeroes are the same thing.

    Reading the holes of a memory would take longer than saving it.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(size.to_bytes(8, "big"))
        for offset in memory.chunks_with_data(file.fileno(), size):
            chunk = os.pread(file.fileno(), memory.CHUNK, offset)
            if not memory.is_zero(chunk):
                digest.update(offset.to_bytes(8, "big"))
                digest.update(chunk)
    return digest.hexdigest()
