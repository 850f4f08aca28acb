"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_whole(path: Path, *parts: bytes) -> None:
    """For its user alone. It may be lost with the power until `settle`; a draft's name begins with a dot."""
    draft = _draft(path, parts)
    draft.rename(path)


def replace_settled(path: Path, data: bytes) -> None:
    """Either what was there or this, also after a loss of power."""
    draft = _draft(path, (data,))
    settle(draft)
    draft.rename(path)


def settle(path: Path) -> None:
    """From now on it survives a loss of power; what is gone needs none."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_at_most(path: Path, most: int) -> bytes | None:
    """None if there is no such file. More than `most` bytes are cut one byte after that, for the caller to see."""
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _draft(path: Path, parts: tuple[bytes, ...]) -> Path:
    draft = path.with_name(f".{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(draft, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
    except BaseException:
        draft.unlink()
        raise
    return draft
