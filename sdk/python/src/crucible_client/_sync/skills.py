"""Skills of a server: what its agents were taught, for all sessions."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from crucible_client import trees
from crucible_client._sync.http import Http
from crucible_client._sync.waiting import beside
from crucible_client.skills import ARCHIVE, DOCUMENT, SkillInfo

_LOAD_S = 120.0


class Skills:
    """Of a client. To load and to remove takes scope `admin`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> builtins.list[SkillInfo]:
        """By name. One that has a `problem` is not used."""
        return [SkillInfo.read(one) for one in self._http.pages("/skills")]

    def get(self, name: str) -> SkillInfo:
        """Raises SkillMissing, and SkillChanged if a file of it is not what it was when it was added."""
        return SkillInfo.read(self._http.call("GET", _path(name)))

    def load(self, document: str, *, replace: bool = False) -> SkillInfo:
        """A skill that is nothing but the text of its SKILL.md. Raises BadSkill, SkillTaken."""
        return self._send("/skills", document.encode(), DOCUMENT, replace)

    def load_directory(
        self, directory: str | os.PathLike[str], *, replace: bool = False
    ) -> SkillInfo:
        """A directory with a SKILL.md and what belongs to it. Raises BadSkill, SkillTaken."""
        with beside(lambda: trees.packed(Path(directory))) as file:
            return self._send("/skills", _pieces(file), ARCHIVE, replace)

    def check(self, document: str) -> SkillInfo:
        """As `load` would find it; nothing is kept. Raises BadSkill."""
        return self._send("/skills/check", document.encode(), DOCUMENT)

    def remove(self, name: str) -> None:
        """One that was added. Raises SkillMissing."""
        self._http.call("DELETE", _path(name))

    def _send(
        self,
        path: str,
        content: bytes | Iterator[bytes],
        content_type: str,
        replace: bool = False,
    ) -> SkillInfo:
        told = self._http.call(
            "POST",
            path,
            content=content,
            content_type=content_type,
            params={"replace": True} if replace else None,
            timeout_s=_LOAD_S,
        )
        return SkillInfo.read(told)


def _pieces(file: trees.Readable) -> Iterator[bytes]:
    while data := beside(lambda: file.read(trees.PIECE)):
        yield data


def _path(name: str) -> str:
    return f"/skills/{quote(name, safe='')}"
