"""What a sandbox changed in its workspace: the baseline beside what is there now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.manifest import Manifest

_MODE_BITS = 0o7777


class ChangeKind(StrEnum):
    """A modified file may have another mode as well; MODE means that only the mode differs."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`old` is None for what was added, `new` for what was deleted."""

    name: bytes
    kind: ChangeKind
    old: Entry | None
    new: Entry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Sorted by name, so that a directory comes before what it holds."""

    all: tuple[Change, ...] = ()

    @property
    def added(self) -> tuple[Change, ...]:
        return self.of(ChangeKind.ADDED)

    @property
    def modified(self) -> tuple[Change, ...]:
        return self.of(ChangeKind.MODIFIED)

    @property
    def deleted(self) -> tuple[Change, ...]:
        return self.of(ChangeKind.DELETED)

    @property
    def mode_changed(self) -> tuple[Change, ...]:
        return self.of(ChangeKind.MODE)

    @property
    def type_changed(self) -> tuple[Change, ...]:
        return self.of(ChangeKind.TYPE)

    def of(self, kind: ChangeKind) -> tuple[Change, ...]:
        return tuple(change for change in self.all if change.kind is kind)

    def __bool__(self) -> bool:
        return bool(self.all)


def compare(baseline: Manifest, current: Manifest) -> Changes:
    found = []
    for name in sorted(baseline.entries.keys() | current.entries.keys(), key=by_place):
        change = _change(name, baseline.entries.get(name), current.entries.get(name))
        if change is not None:
            found.append(change)
    return Changes(all=tuple(found))


def advance(baseline: Manifest, done: Iterable[Change]) -> Manifest:
    """The baseline after these changes have been written to the host: they are not shown again."""
    entries = dict(baseline.entries)
    for change in done:
        if change.new is None:
            entries.pop(change.name, None)
        else:
            entries[change.name] = change.new
    return Manifest(entries=entries)


def by_place(name: bytes) -> tuple[bytes, ...]:
    return tuple(name.split(b"/"))


def _change(name: bytes, old: Entry | None, new: Entry | None) -> Change | None:
    if old is None or new is None:
        kind = ChangeKind.ADDED if old is None else ChangeKind.DELETED
    elif old.type != new.type:
        kind = ChangeKind.TYPE
    elif old.sha256 != new.sha256 or old.target != new.target:
        kind = ChangeKind.MODIFIED
    elif old.type in ("file", "directory") and (old.mode ^ new.mode) & _MODE_BITS:
        kind = ChangeKind.MODE
    else:
        return None
    return Change(name=name, kind=kind, old=old, new=new)
