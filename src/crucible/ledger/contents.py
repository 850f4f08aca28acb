"""What went into a step and came out of it, in files that can be erased while the entry stays.

A content is named by a hash of it and of a random salt that lies with it: who has only the entry cannot find out a
short secret by trying, once the file is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from crucible.errors import ContentTooLarge
from crucible.ledger.files import read_at_most, write_whole

MAX_CONTENT = 64 << 20
SALT_BYTES = 32
_MAGIC = b"crucible-content-v1\n"
MAX_FILE = len(_MAGIC) + SALT_BYTES + MAX_CONTENT
_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
# A content is written before its entry: one that no entry names may belong to one that comes.
_STRAY_S = 3600.0


class BadContent(ValueError):
    """The file is not the content that its name says."""


class Contents:
    """Those of all runs of one state directory, a directory for each run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, run: str, content: bytes) -> str:
        """Its name. The same content twice has two names."""
        if len(content) > MAX_CONTENT:
            raise ContentTooLarge(len(content), MAX_CONTENT)
        salt = secrets.token_bytes(SALT_BYTES)
        name = name_of(salt, content)
        write_whole(self.path(run, name), _MAGIC, salt, content)
        return name

    def file(self, run: str, name: str) -> bytes | None:
        """The bytes of the file, unchecked; None if it is gone."""
        if not is_name(name):
            return None
        return read_at_most(self.path(run, name), MAX_FILE)

    def read(self, run: str, name: str) -> bytes | None:
        """None if it is gone; BadContent if it is not the one that was written."""
        data = self.file(run, name)
        return None if data is None else open_file(name, data)

    def remove(self, run: str, name: str) -> None:
        self.path(run, name).unlink(missing_ok=True)

    def names(self, run: str) -> Iterator[str]:
        """All that are there, whether an entry names them or not."""
        with contextlib.suppress(FileNotFoundError):
            for path in (self._directory / run).iterdir():
                if is_name(path.name):
                    yield path.name

    def remove_strays(self, run: str, known: set[str]) -> None:
        """What no entry names, nor will: left by a process that died between the content and the entry."""
        with contextlib.suppress(FileNotFoundError):
            for path in (self._directory / run).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    age_s = time.time() - path.stat().st_mtime
                    if path.name not in known and age_s > _STRAY_S:
                        path.unlink()

    def path(self, run: str, name: str) -> Path:
        """Where one is; both are checked by who asks."""
        return self._directory / run / name


def name_of(salt: bytes, content: bytes) -> str:
    digest = hashlib.sha256(_MAGIC + salt)
    digest.update(content)
    return digest.hexdigest()


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def open_file(name: str, data: bytes) -> bytes:
    """The content in a file of ours, if it is the one of this name."""
    start = len(_MAGIC) + SALT_BYTES
    if len(data) < start or len(data) > MAX_FILE or not data.startswith(_MAGIC):
        raise BadContent
    salt, content = data[len(_MAGIC) : start], data[start:]
    if name_of(salt, content) != name:
        raise BadContent
    return content
