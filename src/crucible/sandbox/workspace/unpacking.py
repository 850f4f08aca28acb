"""An archive from a guest, written beneath one directory of the host and nowhere else."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from crucible.errors import PathRefused
from crucible.sandbox.workspace.archive import ArchiveReader, Member, MemberEnd, MemberType
from crucible.sandbox.workspace.beneath import (
    Beneath,
    NewFile,
    Parts,
    aside_name,
    host_errors,
    place_link,
)
from crucible.sandbox.workspace.names import shown, split_name

_MAX_SKIPPED_NAMES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """What one archive may bring at most. Headers count into `max_bytes` too."""

    max_bytes: int = 64 << 30
    max_entries: int = 1_000_000
    max_name_bytes: int = 4096
    max_depth: int = 128


DEFAULT_LIMITS = UnpackLimits()


@dataclass(slots=True)
class _MadeDirectory:
    mode: int
    mtime_ns: int | None


class Unpacker:
    """Feed it the archive, then `finish`. Leaving the block early removes the file that was being written.

    `top` is the one topmost name the archive may use, `rename` what it becomes here. A regular file or link that is in
    the way is replaced, a directory never; existing directories keep their modes. Modes come without setuid, setgid
    and sticky bits. Devices, pipes and the like are left out and named in `skipped`.
    """

    def __init__(
        self,
        target: Path,
        *,
        limits: UnpackLimits = DEFAULT_LIMITS,
        top: bytes | None = None,
        rename: bytes | None = None,
    ) -> None:
        self.entries = 0
        self.bytes_written = 0
        self.skipped: list[str] = []
        self._limits = limits
        self._top = top
        self._rename = rename
        self._reader = ArchiveReader()
        self._beneath = Beneath(target)
        self._made: dict[tuple[bytes, ...], _MadeDirectory] = {}
        self._written: set[tuple[int, int]] = set()
        self._member: Member | None = None
        self._parts: tuple[bytes, ...] = ()
        self._file: NewFile | None = None

    def feed(self, data: bytes) -> None:
        """Raises PathRefused or HostDiskFull; what was written before stays, nothing more is taken."""
        try:
            for event in self._reader.feed(data):
                if isinstance(event, Member):
                    self._begin(event)
                elif isinstance(event, MemberEnd):
                    self._end()
                else:
                    self._write(event)
        except BaseException:
            self.close()
            raise

    def finish(self) -> None:
        """All of it has come: directories get their modes now, since a closed one could not be filled."""
        try:
            self._reader.finish()
            for parts in sorted(self._made, reverse=True):
                self._settle(parts, self._made[parts])
        finally:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.drop()
            self._file = None
        self._beneath.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, member: Member) -> None:
        self._count(member)
        self._member = member
        self._parts = self._local(member.name)
        if not self._parts:
            if member.type is not MemberType.DIRECTORY:
                raise PathRefused(f"The archive holds a {member.type} without a name")
            return
        with host_errors(self._parts):
            match member.type:
                case MemberType.FILE:
                    parent = self._parent(self._parts)
                    self._file = NewFile(parent, name=self._parts[-1])
                case MemberType.DIRECTORY:
                    self._make_directory(self._parts, member)
                case MemberType.SYMLINK:
                    self._make_symlink(self._parts, member)
                case MemberType.HARD_LINK:
                    self._make_hard_link(self._parts, member)
                case MemberType.SPECIAL:
                    self._skip(member)

    def _write(self, data: memoryview) -> None:
        if self._file is not None:
            with host_errors(self._parts):
                self._file.write(data)
            self.bytes_written += len(data)

    def _end(self) -> None:
        if self._file is None or self._member is None:
            return
        with host_errors(self._parts):
            mode, mtime_ns = self._member.mode, self._member.mtime_ns
            status = self._file.place(self._parts[-1], mode=mode, mtime_ns=mtime_ns)
        self._file = None
        self._written.add((status.st_dev, status.st_ino))

    def _count(self, member: Member) -> None:
        self.entries += 1
        if self.entries > self._limits.max_entries:
            raise PathRefused(f"The archive holds more than {self._limits.max_entries} entries")
        total = self.bytes_written + self._reader.meta_bytes + member.size
        if total > self._limits.max_bytes:
            raise PathRefused(
                f"The archive is larger than {self._limits.max_bytes} bytes",
                hint="Copy a part of it, or raise the limit",
            )

    def _local(self, name: bytes) -> tuple[bytes, ...]:
        """The archive's name as components on this host."""
        limits = self._limits
        parts = split_name(name, max_bytes=limits.max_name_bytes, max_depth=limits.max_depth)
        if self._top is None or not parts:
            return parts
        if parts[0] != self._top:
            raise PathRefused(
                f"The sandbox sent {shown(name)}, which was not asked for",
                hint="Treat this sandbox as hostile",
            )
        return (self._rename, *parts[1:]) if self._rename is not None else parts

    def _parent(self, parts: Parts) -> int:
        return self._beneath.directory(parts[:-1], on_missing=self._make_missing)

    def _make_missing(self, parent: int, parts: Parts) -> None:
        os.mkdir(parts[-1], 0o700, dir_fd=parent)
        self._made[tuple(parts)] = _MadeDirectory(mode=0o755, mtime_ns=None)

    def _make_directory(self, parts: tuple[bytes, ...], member: Member) -> None:
        self._beneath.directory(parts, on_missing=self._make_missing)
        if parts in self._made:
            self._made[parts] = _MadeDirectory(mode=member.mode, mtime_ns=member.mtime_ns)

    def _make_symlink(self, parts: Parts, member: Member) -> None:
        if not member.target or b"\0" in member.target:
            raise PathRefused(f"{shown(member.name)} is a link to nothing")
        if len(member.target) > self._limits.max_name_bytes:
            raise PathRefused(f"{shown(member.name)} links to a name that is too long")
        place_link(self._parent(parts), parts[-1], member.target, mtime_ns=member.mtime_ns)

    def _make_hard_link(self, parts: Parts, member: Member) -> None:
        """Only to a file that this very archive brought."""
        source = self._local(member.target)
        found = self._beneath.status(source) if source else None
        is_ours = found is not None and (found.st_dev, found.st_ino) in self._written
        if found is None or not is_ours or not stat.S_ISREG(found.st_mode):
            raise PathRefused(
                f"{shown(member.name)} is a hard link to {shown(member.target)},"
                " which is no file of the same archive"
            )
        aside = aside_name()
        origin = os.dup(self._beneath.directory(source[:-1]))
        try:
            parent = self._parent(parts)
            os.link(source[-1], aside, src_dir_fd=origin, dst_dir_fd=parent, follow_symlinks=False)
            self._put_link(aside, parts[-1], parent)
        finally:
            os.close(origin)

    def _put_link(self, aside: bytes, name: bytes, parent: int) -> None:
        try:
            os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            # rename does nothing when both names are one file already.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=parent)

    def _skip(self, member: Member) -> None:
        if len(self.skipped) < _MAX_SKIPPED_NAMES:
            self.skipped.append(shown(member.name))

    def _settle(self, parts: tuple[bytes, ...], made: _MadeDirectory) -> None:
        with host_errors(parts):
            descriptor = self._beneath.directory(parts)
            if made.mtime_ns is not None:
                os.utime(descriptor, ns=(made.mtime_ns, made.mtime_ns))
            os.fchmod(descriptor, made.mode & 0o777)
