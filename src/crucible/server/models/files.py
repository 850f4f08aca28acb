"""Files of a sandbox as they are asked for and told."""

from __future__ import annotations

import base64
import os
from typing import Annotated

from pydantic import Field

from crucible.errors import BadSetting
from crucible.sandbox.session import Change, ChangeKind, Entry, EntryType
from crucible.server.models.base import Asked, Told

LONGEST_PATH = 4096
FilePath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]
Mode = Annotated[int, Field(ge=0, le=0o7777)]
Owner = Annotated[str, Field(max_length=256)]


class NewDirectory(Asked):
    path: FilePath
    mode: Mode = 0o755
    owner: Owner = ""
    parents: bool = False


class Move(Asked):
    source: FilePath
    target: FilePath


class FileEntry(Told):
    """`name_base64` is there when the name is no UTF-8; `name` then has marks in place of what is none."""

    name: str
    name_base64: str | None
    type: EntryType
    mode: int
    size: int
    modified_at: float
    uid: int
    gid: int
    target: str

    @classmethod
    def of(cls, entry: Entry) -> FileEntry:
        name, name_base64 = _shown(entry.name)
        return cls(
            name=name,
            name_base64=name_base64,
            type=entry.type,
            mode=entry.mode,
            size=entry.size,
            modified_at=entry.mtime_ns / 1e9,
            uid=entry.uid,
            gid=entry.gid,
            target=entry.target.decode(errors="replace"),
        )


class FileChange(Told):
    """What happened to a name below the directory. A rename is told of the old name; the new one is created."""

    kind: ChangeKind
    name: str
    name_base64: str | None

    @classmethod
    def of(cls, change: Change) -> FileChange:
        name, name_base64 = _shown(change.name)
        return cls(kind=change.kind, name=name, name_base64=name_base64)


class Entries(Told):
    items: list[FileEntry]


class Written(Told):
    path: str
    size: int


class Unpacked(Told):
    entries: int


def _shown(name: bytes) -> tuple[str, str | None]:
    """As text; and as base64 where it is none."""
    text = name.decode(errors="replace")
    is_text = text.encode(errors="replace") == name
    return text, None if is_text else base64.b64encode(name).decode()


def guest_path(text: str) -> bytes:
    """An absolute path of the guest, whose own root is all it can lead to."""
    if not text.startswith("/") or "\0" in text:
        raise BadSetting(f"{text!r} is not an absolute path in the sandbox")
    try:
        path = os.fsencode(text)
    except UnicodeEncodeError:
        raise BadSetting(f"{text!r} has characters that cannot be") from None
    if len(path) > LONGEST_PATH:
        raise BadSetting(f"A path has at most {LONGEST_PATH} bytes")
    return path
