"""Programs that skills name by address: fetched when they are first called, kept by hash, never taken unverified."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from crucible.agent.skills.declared import LARGEST_BINARY, Architecture, Source
from crucible.agent.skills.shelf import Skill
from crucible.errors import SkillChanged, Unsupported

DIRECTORY = "skill-programs"
_FETCH_S = 300.0


class Programs:
    def __init__(self, home: Path) -> None:
        self._root = home / DIRECTORY

    async def get(self, skill: Skill, source: Source) -> bytes:
        """Its bytes, which have the hash that the skill names. Raises SkillChanged."""
        if source.path:
            return skill.read(source.path)
        kept = self._root / source.sha256
        try:
            data = kept.read_bytes()
        except FileNotFoundError:
            data = await _fetch(source.url)
        if hashlib.sha256(data).hexdigest() != source.sha256:
            kept.unlink(missing_ok=True)
            raise SkillChanged(
                f"{source.url} of skill {skill.name!r} does not have the sha256 that the skill names",
                hint="The program was replaced, or what is between here and there changed it",
            )
        self._keep(kept, data)
        return data

    def _keep(self, path: Path, data: bytes) -> None:
        if path.exists():
            return
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._root, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)


def architecture() -> Architecture:
    """Of sandboxes on this machine, which is its own."""
    machine = os.uname().machine
    if machine in ("x86_64", "amd64"):
        return "amd64"
    if machine in ("aarch64", "arm64"):
        return "arm64"
    raise Unsupported(f"There are no programs of skills for {machine}")


async def _fetch(url: str) -> bytes:
    import httpx

    data = bytearray()
    try:
        async with (
            httpx.AsyncClient(follow_redirects=True, timeout=_FETCH_S) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > LARGEST_BINARY:
                    raise SkillChanged(f"{url} is larger than {LARGEST_BINARY >> 20} MiB")
    except httpx.HTTPError as error:
        raise SkillChanged(f"{url} could not be fetched: {error}") from None
    return bytes(data)
