"""Skills of a server: what its agents were taught, for all sessions."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from crucible_client import trees
from crucible_client._async.http import AsyncHttp
from crucible_client._async.waiting import beside
from crucible_client.skills import ARCHIVE, DOCUMENT, SkillInfo

_LOAD_S = 120.0


class AsyncSkills:
    """Of a client. To load and to remove takes scope `admin`."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def list(self) -> builtins.list[SkillInfo]:
        """By name. One that has a `problem` is not used."""
        return [SkillInfo.read(one) for one in await self._http.pages("/skills")]

    async def get(self, name: str) -> SkillInfo:
        """Raises SkillMissing, and SkillChanged if a file of it is not what it was when it was added."""
        return SkillInfo.read(await self._http.call("GET", _path(name)))

    async def load(self, document: str, *, replace: bool = False) -> SkillInfo:
        """A skill that is nothing but the text of its SKILL.md. Raises BadSkill, SkillTaken."""
        return await self._send("/skills", document.encode(), DOCUMENT, replace)

    async def load_directory(
        self, directory: str | os.PathLike[str], *, replace: bool = False
    ) -> SkillInfo:
        """A directory with a SKILL.md and what belongs to it. Raises BadSkill, SkillTaken."""
        with await beside(lambda: trees.packed(Path(directory))) as file:
            return await self._send("/skills", _pieces(file), ARCHIVE, replace)

    async def check(self, document: str) -> SkillInfo:
        """As `load` would find it; nothing is kept. Raises BadSkill."""
        return await self._send("/skills/check", document.encode(), DOCUMENT)

    async def remove(self, name: str) -> None:
        """One that was added. Raises SkillMissing."""
        await self._http.call("DELETE", _path(name))

    async def _send(
        self,
        path: str,
        content: bytes | AsyncIterator[bytes],
        content_type: str,
        replace: bool = False,
    ) -> SkillInfo:
        told = await self._http.call(
            "POST",
            path,
            content=content,
            content_type=content_type,
            params={"replace": True} if replace else None,
            timeout_s=_LOAD_S,
        )
        return SkillInfo.read(told)


async def _pieces(file: trees.Readable) -> AsyncIterator[bytes]:
    while data := await beside(lambda: file.read(trees.PIECE)):
        yield data


def _path(name: str) -> str:
    return f"/skills/{quote(name, safe='')}"
