"""The directory whose files a build may copy. No link is ever followed, so nothing outside of it can be reached."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crucible.build.items import MOST_ITEMS, Item, wildcard
from crucible.errors import BadSetting, PathRefused
from crucible.images.layers.headers import Kind, Parts
from crucible.sandbox.workspace.credentials import Withheld

IGNORE_FILE = b".dockerignore"
_MOST_BYTES = 1 << 20
_MOST_PATTERNS = 1000
_LONGEST_PATTERN = 1000
# Each can make matching longer by as much as a path is long.
_MOST_STARS = 12
_CHUNK = 1 << 20
_DEEPEST = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    expression: re.Pattern[bytes]
    is_negated: bool


def parse_ignore(data: bytes) -> tuple[Pattern, ...]:
    """The lines of a .dockerignore: all count from the top, `**` spans directories, the last that matches decides."""
    lines = [line.strip() for line in data.splitlines()]
    lines = [line for line in lines if line and not line.startswith(b"#")]
    if len(lines) > _MOST_PATTERNS:
        raise BadSetting(f".dockerignore has more than {_MOST_PATTERNS} patterns")
    if any(len(line) > _LONGEST_PATTERN or line.count(b"*") > _MOST_STARS for line in lines):
        raise BadSetting("A pattern in .dockerignore is very long, or has very many stars")
    patterns = []
    for line in lines:
        is_negated = line.startswith(b"!")
        parts = [
            part for part in line.removeprefix(b"!").strip().split(b"/") if part not in (b"", b".")
        ]
        if not parts or b".." in parts:
            continue
        try:
            expression = re.compile(_translate(parts), re.DOTALL)
        except re.error:
            shown = line.decode(errors="backslashreplace")
            raise BadSetting(f"{shown[:80]!r} in .dockerignore is no pattern") from None
        patterns.append(Pattern(expression=expression, is_negated=is_negated))
    return tuple(patterns)


def _translate(parts: list[bytes]) -> bytes:
    """Also what lies below a match is matched."""
    pieces: list[bytes] = []
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if part == b"**":
            pieces.append(b".*" if is_last else b"(?:.*/)?")
        else:
            pieces.append(wildcard(part) + (b"" if is_last else b"/"))
    return b"".join(pieces) + b"(?:/.*)?"


class Context:
    """A `Source` of the host. Owners are root's, as it matters nobody who has the files here.

    What is withheld is not there at all, whatever a .dockerignore says.
    """

    def __init__(self, directory: Path, *, withheld: Withheld | None = None) -> None:
        self._withheld = withheld
        try:
            self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise PathRefused(
                f"{str(directory)!r} cannot be the context: {error.strerror}"
            ) from None
        try:
            self._patterns = parse_ignore(self._ignore_file())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._root)

    def names(self, parts: Parts) -> list[bytes]:
        try:
            with self._directory(parts) as descriptor:
                listed = _listed(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name for name in listed if not self._is_ignored((*parts, name))]

    def kind(self, parts: Parts) -> Kind | None:
        if not parts:
            return Kind.DIRECTORY
        if self._is_ignored(parts) and not self._may_hold_more:
            return None
        try:
            with self._directory(parts[:-1]) as descriptor:
                found = os.stat(parts[-1], dir_fd=descriptor, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = _kind(found)
        if self._stays_here(parts, kind):
            return None
        return None if self._is_ignored(parts) and kind is not Kind.DIRECTORY else kind

    def items(self, parts: Parts) -> Iterator[Item]:
        for count, item in enumerate(self._walk(parts, ())):
            if count == MOST_ITEMS:
                raise PathRefused(f"The context holds more than {MOST_ITEMS} files")
            yield item

    def _walk(self, top: Parts, below: Parts) -> Iterator[Item]:
        parts = (*top, *below)
        if len(below) > _DEEPEST:
            raise PathRefused(f"{_shown(parts)} is more than {_DEEPEST} directories deep")
        with self._directory(parts[:-1]) as descriptor:
            found = (
                os.stat(parts[-1], dir_fd=descriptor, follow_symlinks=False)
                if parts
                else os.fstat(descriptor)
            )
            kind = _kind(found)
            target = b""
            if kind is Kind.SYMLINK:
                target = os.fsencode(os.readlink(parts[-1], dir_fd=descriptor))
        if kind is None or self._stays_here(parts, kind):
            return  # sockets and devices mean nothing elsewhere
        is_ignored = bool(below) and self._is_ignored(parts)
        if not is_ignored:
            yield Item(
                parts=below,
                kind=kind,
                mode=0o777 if kind is Kind.SYMLINK else stat.S_IMODE(found.st_mode),
                uid=0,
                gid=0,
                mtime_s=max(0, int(found.st_mtime)),
                size=found.st_size if kind is Kind.FILE else 0,
                target=target,
                read=(lambda: self._read(parts, found.st_size)) if kind is Kind.FILE else tuple,
            )
        if kind is Kind.DIRECTORY and (not is_ignored or self._may_hold_more):
            with self._directory(parts) as descriptor:
                listed = _listed(descriptor)
            for name in listed:
                yield from self._walk(top, (*below, name))

    def _read(self, parts: Parts, size: int) -> Iterator[bytes]:
        """Exactly so many bytes: what a tar's header has promised."""
        with self._directory(parts[:-1]) as directory:
            descriptor = os.open(parts[-1], _FILE, dir_fd=directory)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PathRefused(f"{_shown(parts)} was replaced while it was read")
            while size:
                data = file.read(min(size, _CHUNK))
                if not data:
                    raise PathRefused(f"{_shown(parts)} was cut short while it was read")
                size -= len(data)
                yield data

    @contextmanager
    def _directory(self, parts: Parts) -> Iterator[int]:
        descriptor = os.dup(self._root)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
                except OSError as error:
                    if error.errno == errno.ELOOP or (
                        error.errno == errno.ENOTDIR and _is_link(part, descriptor)
                    ):
                        raise PathRefused(
                            f"{_shown(parts)} goes through a symbolic link, which is not followed"
                        ) from None
                    raise
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _stays_here(self, parts: Parts, kind: Kind | None) -> bool:
        """Whether it, or a directory that it lies in, is withheld."""
        if self._withheld is None:
            return False
        above = (b"/".join(parts[:count]) for count in range(1, len(parts)))
        if any(self._withheld.covers(name, is_directory=True) for name in above):
            return True
        is_directory = kind is Kind.DIRECTORY
        return bool(parts) and self._withheld.covers(b"/".join(parts), is_directory=is_directory)

    @property
    def _may_hold_more(self) -> bool:
        """Whether something in an ignored directory may be taken back."""
        return any(pattern.is_negated for pattern in self._patterns)

    def _is_ignored(self, parts: Parts) -> bool:
        path = b"/".join(parts)
        for pattern in reversed(self._patterns):
            if pattern.expression.fullmatch(path):
                return not pattern.is_negated
        return False

    def _ignore_file(self) -> bytes:
        try:
            descriptor = os.open(IGNORE_FILE, _FILE, dir_fd=self._root)
        except FileNotFoundError:
            return b""
        except OSError:
            raise PathRefused(".dockerignore is no plain file") from None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise BadSetting(f".dockerignore has more than {_MOST_BYTES} bytes")
        return data


def _listed(directory: int) -> list[bytes]:
    with os.scandir(directory) as found:
        return sorted(os.fsencode(entry.name) for entry in found)


def _kind(found: os.stat_result) -> Kind | None:
    for test, kind in (
        (stat.S_ISREG, Kind.FILE),
        (stat.S_ISDIR, Kind.DIRECTORY),
        (stat.S_ISLNK, Kind.SYMLINK),
    ):
        if test(found.st_mode):
            return kind
    return None


def _is_link(name: bytes, directory: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _shown(parts: Parts) -> str:
    return repr(b"/".join(parts).decode(errors="backslashreplace")[:200])
