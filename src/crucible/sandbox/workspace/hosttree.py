"""The host's copy of a workspace: is it still what the sandbox was given, and what does it hold."""

from __future__ import annotations

import hashlib
import os
import stat

from crucible.errors import PathRefused
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.beneath import Beneath, host_errors
from crucible.sandbox.workspace.names import split_name


class HostTree(Beneath):
    """Names are those of a manifest, relative to the workspace."""

    def holds(self, name: bytes, entry: Entry | None) -> bool:
        """Whether the host has exactly this at that name; None asks whether it has nothing. Modes do not count."""
        parts = split_name(name)
        status = self.status(parts)
        if entry is None or status is None:
            return entry is None and status is None
        if entry.type == "directory":
            return stat.S_ISDIR(status.st_mode)
        if entry.type == "symlink":
            return stat.S_ISLNK(status.st_mode) and self.target(parts) == entry.target
        if entry.type != "file" or not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
            return False
        return self._digest(parts) == entry.sha256

    def read(self, name: bytes, entry: Entry) -> bytes | None:
        """A file's content, if it is still what the entry says; else None: the host has changed it."""
        try:
            descriptor = self.open_file(split_name(name))
        except (FileNotFoundError, PathRefused):
            return None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(entry.size + 1)
        return data if hashlib.sha256(data).digest() == entry.sha256 else None

    def target(self, parts: tuple[bytes, ...]) -> bytes:
        with host_errors(parts):
            parent = self.directory(parts[:-1])
            return os.readlink(parts[-1], dir_fd=parent)

    def _digest(self, parts: tuple[bytes, ...]) -> bytes:
        with os.fdopen(self.open_file(parts), "rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").digest()
