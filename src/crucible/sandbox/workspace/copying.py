"""What `cp` between host and guest means, decided before anything is moved: as `cp -r` and `docker cp` do it.

A target that is a directory is copied into; any other becomes the copy itself. A source that ends in `/.` stands
for what the directory holds.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import PathRefused
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.names import shown
from crucible.sandbox.workspace.packing import Packing, pack_tree
from crucible.sandbox.workspace.unpacking import DEFAULT_LIMITS, Unpacker, UnpackLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOut:
    """Ask the guest for `TAR_OUT root names` and feed the answer to `unpacker()`."""

    root: bytes
    names: tuple[bytes, ...]
    directory: Path
    top: bytes | None
    rename: bytes | None

    def unpacker(self, limits: UnpackLimits = DEFAULT_LIMITS) -> Unpacker:
        if self.top is None and not self.directory.exists():
            self.directory.mkdir()
        return Unpacker(self.directory, limits=limits, top=self.top, rename=self.rename)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIn:
    """Send `packing()` to the guest with `TAR_IN root`."""

    source: Path
    name: str | None
    root: bytes

    def packing(self) -> Packing:
        return pack_tree(self.source, name=self.name)


def plan_copy_out(guest_path: bytes, host_path: str) -> CopyOut:
    """`guest_path` is absolute. Raises PathRefused where the host cannot take the copy."""
    root, name = _split_guest(guest_path)
    host = Path(host_path)
    if name == b"":
        if not host.is_dir() and (host.exists() or not host.absolute().parent.is_dir()):
            raise PathRefused(f"{host_path} is not a directory and cannot be made one")
        return CopyOut(root=root, names=(), directory=host, top=None, rename=None)
    if host.is_dir():
        return CopyOut(root=root, names=(name,), directory=host, top=name, rename=None)
    if host_path.endswith("/"):
        raise PathRefused(
            f"{host_path} is not a directory", hint="Make it first, or leave the slash away"
        )
    parent = host.absolute().parent
    if not parent.is_dir():
        raise PathRefused(f"{parent} is not a directory", hint=f"Make it with `mkdir -p {parent}`")
    rename = os.fsencode(host.name)
    return CopyOut(root=root, names=(name,), directory=parent, top=name, rename=rename)


def plan_copy_in(host_path: str, guest_path: bytes, found: Entry | None) -> CopyIn:
    """`found` is what the guest has at `guest_path` (links followed), or None."""
    is_content = host_path.endswith("/.") or host_path == "."
    source = Path(host_path)
    is_directory = _is_directory(host_path)
    if found is not None and found.type == "directory":
        name = None if is_content else _own_name(source)
        return CopyIn(source=source, name=name, root=guest_path)
    if found is not None and is_directory:
        raise PathRefused(
            f"{shown(guest_path)} in the sandbox is not a directory, {host_path} is one"
        )
    if guest_path.endswith(b"/") and not is_directory:
        raise PathRefused(
            f"{shown(guest_path)} does not exist in the sandbox",
            hint="Make it first, or leave the slash away",
        )
    root, name_inside = _split_guest(guest_path)
    if not name_inside:
        raise PathRefused(f"{shown(guest_path)} does not exist in the sandbox")
    return CopyIn(source=source, name=os.fsdecode(name_inside), root=root)


def _split_guest(path: bytes) -> tuple[bytes, bytes]:
    """The directory to pack in and the name in it; no name where the content is meant."""
    if not path.startswith(b"/") or b"\0" in path:
        raise PathRefused(f"{shown(path)} is not an absolute path of the sandbox")
    if path.endswith(b"/."):
        return path[:-2] or b"/", b""
    parent, _, name = path.rstrip(b"/").rpartition(b"/")
    if name in (b"", b".", b".."):
        return path, b""
    return parent or b"/", name


def _is_directory(host_path: str) -> bool:
    """Of the path itself: a link is copied as a link, unless a slash at its end asks for more."""
    try:
        is_followed = host_path.endswith(("/", "/."))
        status = Path(host_path).stat(follow_symlinks=is_followed)
    except OSError as error:
        raise PathRefused(f"{host_path} cannot be read: {error.strerror}") from None
    return stat.S_ISDIR(status.st_mode)


def _own_name(source: Path) -> str | None:
    """Also of `..`; the root of the host has none, and stands for its content."""
    return source.name if source.name not in ("", "..") else source.resolve().name or None
