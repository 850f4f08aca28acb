"""Writes what a sandbox changed into the host's directory: file by file, each whole or not at all.

Whatever the host changed meanwhile is left alone, and what could turn against the host later is refused: links that
leave the workspace, and the files that git runs or obeys.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from crucible.errors import CrucibleError, GuestRefused, PathRefused
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.beneath import NewFile, Parts, host_errors, place_link
from crucible.sandbox.workspace.changes import Change, ChangeKind, Changes
from crucible.sandbox.workspace.credentials import is_credential
from crucible.sandbox.workspace.hosttree import HostTree
from crucible.sandbox.workspace.names import shown, split_name

_GIT_CONTROL = frozenset((b"hooks", b"config", b"config.worktree", b"gitdir", b"commondir"))

Fetch = Callable[[bytes], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRules:
    """`force` overwrites files the host changed too; it never removes a directory with something unknown in it."""

    force: bool = False
    allow_outside_links: bool = False
    allow_git_control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    change: Change
    why: str


@dataclass(slots=True, kw_only=True)
class Applied:
    """Hand `done` to `changes.advance` for the next baseline."""

    done: list[Change] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


DEFAULT_RULES = ApplyRules()


def apply_changes(
    host_directory: Path, changes: Changes, fetch: Fetch, *, rules: ApplyRules = DEFAULT_RULES
) -> Applied:
    """`fetch(name)` streams a file of the guest; it is only taken if it is the very one the changes speak of.

    A change that cannot be made is refused by itself and the others go on. A full disk ends it all: HostDiskFull.
    """
    applied = Applied()
    with HostTree(host_directory) as tree:
        writer = _Writer(tree, fetch, rules)
        for change, step in _ordered(changes, writer):
            try:
                step(change)
            except FileNotFoundError:
                applied.refused.append(Refusal(change=change, why="its directory is not there"))
            except PathRefused as refusal:
                applied.refused.append(Refusal(change=change, why=refusal.message))
            except CrucibleError as error:
                # By its code: through a connection the class is another.
                if error.code != GuestRefused.code:
                    raise
                why = f"the sandbox does not hand it out ({shown(error.message)})"
                applied.refused.append(Refusal(change=change, why=why))
            else:
                applied.done.append(change)
        writer.close_directories()
    return applied


def _ordered(
    changes: Changes, writer: _Writer
) -> Iterable[tuple[Change, Callable[[Change], None]]]:
    """First what goes, from the leaves up; then what comes, from the top down. A new type is both."""
    for change in reversed(changes.all):
        if change.kind is ChangeKind.DELETED:
            yield change, writer.remove
    for change in changes.all:
        if change.kind is not ChangeKind.DELETED:
            yield change, writer.write


class _Writer:
    def __init__(self, tree: HostTree, fetch: Fetch, rules: ApplyRules) -> None:
        self._tree = tree
        self._fetch = fetch
        self._rules = rules
        self._directory_modes: dict[tuple[bytes, ...], int] = {}

    def remove(self, change: Change) -> None:
        parts = split_name(change.name)
        self._check_allowed(change, parts)
        if self._tree.status(parts) is None:
            return
        self._check_unchanged(change)
        self._remove_old(parts)

    def write(self, change: Change) -> None:
        parts = split_name(change.name)
        self._check_allowed(change, parts)
        if change.new is None or change.new.type == "other":
            raise PathRefused("it is a socket, a pipe or a device")
        if change.kind is ChangeKind.MODE:
            self._check_unchanged(change)
        elif not self._tree.holds(change.name, change.new):
            self._check_unchanged(change)
            self._put(parts, change, change.new)
        if _has_new_mode(change, change.new):
            self._set_mode(parts, change.new)

    def close_directories(self) -> None:
        """Gives directories their modes at last, the inner ones first: a closed one could not be filled."""
        for parts in sorted(self._directory_modes, reverse=True):
            with host_errors(parts):
                os.fchmod(self._tree.directory(parts), self._directory_modes[parts])

    def _check_allowed(self, change: Change, parts: Parts) -> None:
        if not self._rules.allow_git_control and _steers_git(parts, change):
            raise PathRefused("git would obey or run it on this host")
        if change.old is None and not self._rules.force and self._is_kept_back(parts):
            raise PathRefused("it lies where this host keeps credentials")
        new = change.new
        if new is None or new.type != "symlink" or self._rules.allow_outside_links:
            return
        if not stays_inside(parts, new.target):
            raise PathRefused(
                f"it links to {shown(new.target)}, which may lead out of the workspace"
            )

    def _is_kept_back(self, parts: Parts) -> bool:
        """Whether it is a credential that was left out, or would come to lie among such."""
        return any(
            is_credential(b"/".join(parts[:count]), is_directory=count < len(parts))
            and self._tree.status(parts[:count]) is not None
            for count in range(1, len(parts) + 1)
        )

    def _check_unchanged(self, change: Change) -> None:
        if self._tree.holds(change.name, change.old):
            return
        status = self._tree.status(split_name(change.name))
        is_directory = status is not None and stat.S_ISDIR(status.st_mode)
        if not self._rules.force or is_directory:
            raise PathRefused("it was changed on the host since the sandbox got it")

    def _put(self, parts: tuple[bytes, ...], change: Change, new: Entry) -> None:
        status = self._tree.status(parts)
        is_directory = status is not None and stat.S_ISDIR(status.st_mode)
        if status is not None and is_directory != (new.type == "directory"):
            self._remove_old(parts)
        # A mode that the sandbox left alone stays the host's.
        keeps_mode = status is not None and not _has_new_mode(change, new)
        mode = status.st_mode if status is not None and keeps_mode else new.mode
        with host_errors(parts):
            parent = self._tree.directory(parts[:-1])
            if new.type == "directory":
                os.mkdir(parts[-1], 0o700, dir_fd=parent)
            elif new.type == "symlink":
                place_link(parent, parts[-1], new.target, mtime_ns=new.mtime_ns)
            else:
                self._put_file(parent, parts[-1], new, mode)

    def _put_file(self, parent: int, name: bytes, new: Entry, mode: int) -> None:
        file, digest, left = NewFile(parent), hashlib.sha256(), new.size
        try:
            for data in self._fetch(new.name):
                left -= len(data)
                if left < 0:
                    break
                digest.update(data)
                file.write(data)
            if left or digest.digest() != new.sha256:
                raise PathRefused("it was changed in the sandbox meanwhile")
            file.place(name, mode=mode, mtime_ns=new.mtime_ns)
        except BaseException:
            file.drop()
            raise

    def _remove_old(self, parts: tuple[bytes, ...]) -> None:
        with host_errors(parts):
            parent = self._tree.directory(parts[:-1])
            status = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(parts[-1], dir_fd=parent)
            else:
                os.unlink(parts[-1], dir_fd=parent)

    def _set_mode(self, parts: tuple[bytes, ...], new: Entry) -> None:
        mode = new.mode & 0o777
        with host_errors(parts):
            if new.type == "directory":
                os.fchmod(self._tree.directory(parts), mode | 0o700)
                self._directory_modes[parts] = mode
            elif new.type == "file":
                self._set_file_mode(parts, mode)

    def _set_file_mode(self, parts: tuple[bytes, ...], mode: int) -> None:
        status = self._tree.status(parts)
        if status is not None and status.st_mode == stat.S_IFREG | mode:
            return
        descriptor = self._tree.open_file(parts)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def stays_inside(parts: Parts, target: bytes) -> bool:
    """Whether a link at `parts` can only lead to places in the workspace, whatever other links it meets.

    `..` is taken at its beginning only: after a name that is itself a link, it could climb from anywhere.
    """
    if target.startswith(b"/"):
        return False
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    climbs = 0
    while climbs < len(steps) and steps[climbs] == b"..":
        climbs += 1
    return b".." not in steps[climbs:] and climbs < len(parts)


def _has_new_mode(change: Change, new: Entry) -> bool:
    old = change.old
    return old is None or old.type != new.type or old.mode != new.mode


def _steers_git(parts: Parts, change: Change) -> bool:
    """Hooks and settings of a repository: the next git command of the user would run what they say."""
    lowered = [part.lower() for part in parts]
    if b".git" not in lowered:
        return False
    inside = lowered[lowered.index(b".git") + 1 :]
    if not inside:
        return change.new is not None and change.new.type != "directory"
    if inside[0] in (b"modules", b"worktrees"):
        return bool(_GIT_CONTROL & set(inside))
    return inside[0] in _GIT_CONTROL or inside == [b"info", b"attributes"]
