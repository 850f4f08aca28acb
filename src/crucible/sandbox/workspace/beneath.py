"""A directory held by its descriptor, and everything in it reached from there: one component at a time,
through real directories only, so that no symbolic link can lead anywhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from crucible.errors import HostDiskFull, PathRefused
from crucible.sandbox.workspace.names import shown

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ASIDE_PREFIX = b".crucible-new-"
_FULL = (errno.ENOSPC, errno.EDQUOT)

Parts = Sequence[bytes]


class Beneath:
    """Descriptors it hands out are its own: they are valid until the next call and never closed by others.

    The path it is opened with is the caller's and may lead through links; nothing after it does.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise PathRefused(f"{path} cannot be opened: {_reason(error)}") from None
        self._entered: list[tuple[bytes, int]] = []

    def directory(
        self, parts: Parts, *, on_missing: Callable[[int, Parts], None] | None = None
    ) -> int:
        """The directory's descriptor. `on_missing(parent, parts)` may make one that is not there.

        Raises FileNotFoundError, or PathRefused where something else than a directory is in the way.
        """
        self._leave(_common(self._entered, parts))
        for depth in range(len(self._entered), len(parts)):
            parent, name = self._top(), parts[depth]
            try:
                entered = self._enter(parent, parts[: depth + 1])
            except FileNotFoundError:
                if on_missing is None:
                    raise
                on_missing(parent, parts[: depth + 1])
                entered = self._enter(parent, parts[: depth + 1])
            self._entered.append((name, entered))
        return self._top()

    def status(self, parts: Parts) -> os.stat_result | None:
        """What is there, links not followed; None when there is nothing, or no directory to hold it."""
        try:
            parent = self.directory(parts[:-1])
            return os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self, parts: Parts) -> int:
        """A regular file for reading; the caller closes it. Raises FileNotFoundError or PathRefused."""
        with host_errors(parts):
            descriptor = os.open(parts[-1], _READ, dir_fd=self.directory(parts[:-1]))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PathRefused(f"{shown(b'/'.join(parts))} is not a regular file")
        return descriptor

    def close(self) -> None:
        self._leave(0)
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _top(self) -> int:
        return self._entered[-1][1] if self._entered else self._root

    def _enter(self, parent: int, parts: Parts) -> int:
        try:
            return os.open(parts[-1], _DIRECTORY, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise PathRefused(
                    f"{shown(b'/'.join(parts))} is not a directory here, and links are not followed"
                ) from None
            raise

    def _leave(self, depth: int) -> None:
        while len(self._entered) > depth:
            os.close(self._entered.pop()[1])


class NewFile:
    """A file being written; it takes its final name by `place`, or vanishes by `drop`.

    It is written beside that name, so that whoever has the name keeps it until then. With `name` it begins under it
    at once where nobody has it, which is cheaper.
    """

    def __init__(self, parent: int, *, name: bytes = b"") -> None:
        self._parent = os.dup(parent)
        try:
            self._name, self.descriptor = self._open(name)
        except BaseException:
            os.close(self._parent)
            raise

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]

    def place(self, name: bytes, *, mode: int, mtime_ns: int) -> os.stat_result:
        """Under its final name, in place of whatever is no directory; returns what the file is."""
        os.fchmod(self.descriptor, mode & 0o777)
        os.utime(self.descriptor, ns=(mtime_ns, mtime_ns))
        if self._name != name:
            os.rename(self._name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        status = os.fstat(self.descriptor)
        self._close()
        return status

    def drop(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._parent)
        self._close()

    def _open(self, name: bytes) -> tuple[bytes, int]:
        if name:
            with contextlib.suppress(FileExistsError):
                return name, os.open(name, _WRITE_NEW, 0o600, dir_fd=self._parent)
        aside = aside_name()
        return aside, os.open(aside, _WRITE_NEW, 0o600, dir_fd=self._parent)

    def _close(self) -> None:
        os.close(self.descriptor)
        os.close(self._parent)


def place_link(parent: int, name: bytes, target: bytes, *, mtime_ns: int) -> None:
    """A symbolic link of that name, in place of whatever is no directory."""
    aside = aside_name()
    os.symlink(target, aside, dir_fd=parent)
    try:
        os.utime(aside, ns=(mtime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)
        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(aside, dir_fd=parent)
        raise


def aside_name() -> bytes:
    return _ASIDE_PREFIX + secrets.token_hex(8).encode()


@contextlib.contextmanager
def host_errors(parts: Parts) -> Iterator[None]:
    """Says what the host's refusal means. A missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        name = shown(b"/".join(parts))
        if error.errno in _FULL:
            raise HostDiskFull(name) from error
        if error.errno == errno.ELOOP:
            raise PathRefused(
                f"{name} is a symbolic link here, and links are not followed"
            ) from None
        raise PathRefused(f"{name} cannot be used on this host: {_reason(error)}") from None


def _common(entered: list[tuple[bytes, int]], parts: Parts) -> int:
    count = 0
    for (name, _), part in zip(entered, parts, strict=False):
        if name != part:
            break
        count += 1
    return count


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
