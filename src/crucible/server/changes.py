"""What a sandbox changed in its copy of a directory, looked at from inside the program that holds it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path
from typing import IO

from crucible.sandbox.manager import Manager
from crucible.sandbox.seeding import baseline_of
from crucible.sandbox.session import Files
from crucible.sandbox.workspace.applying import Applied, apply_changes
from crucible.sandbox.workspace.changes import Change, Changes, advance, compare
from crucible.sandbox.workspace.diff import render_diff
from crucible.sandbox.workspace.hosttree import HostTree
from crucible.sandbox.workspace.manifest import (
    MAX_ENTRIES,
    Manifest,
    collect,
    manifest_lines,
    parse_manifest,
)
from crucible.values import dataclass

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`path` is where the copy lies in the sandbox, `source` what of the host it is a copy of."""

    changes: Changes
    files: Files
    path: bytes
    source: Path
    baseline: Manifest
    baseline_path: Path


async def find_changes(manager: Manager, name: str, target: str = "") -> Found:
    """Raises BadSetting if it was made from no directory."""
    held = manager.running(name)
    source, baseline_path = baseline_of(held.record, target)
    path = (target or held.image.workspace).encode()
    with held.used():
        found = []
        async for entry in held.machine.files.tree(path, hashed=True):
            found.append(entry)
            if len(found) > MAX_ENTRIES:
                break
    current = collect(found)
    lines = await asyncio.to_thread(baseline_path.read_bytes)
    baseline = await asyncio.to_thread(parse_manifest, lines.splitlines())
    changes = await asyncio.to_thread(compare, baseline, current)
    return Found(
        changes=changes,
        files=held.machine.files,
        path=path,
        source=Path(source),
        baseline=baseline,
        baseline_path=baseline_path,
    )


async def apply_to_host(found: Found, paths: Collection[str]) -> Applied:
    """Those alone, and the directories that they are in. What is refused is told; the others are written."""
    loop = asyncio.get_running_loop()
    chosen = Changes(all=tuple(selected(found.changes, paths)))
    sizes = {one.name: one.new.size for one in chosen.all if one.new is not None}

    def fetch(name: bytes) -> Iterator[bytes]:
        # One byte more than there was: enough to notice that it has grown since.
        left, at = sizes[name] + 1, 0
        while left:
            reading = _read(found.files, found.path + b"/" + name, min(_CHUNK, left), at)
            data = asyncio.run_coroutine_threadsafe(reading, loop).result()
            if not data:
                return
            at, left = at + len(data), left - len(data)
            yield data

    def work() -> Applied:
        applied = apply_changes(found.source, chosen, fetch)
        building = found.baseline_path.with_name(f".{found.baseline_path.name}")
        with building.open("wb") as file:
            file.writelines(manifest_lines(advance(found.baseline, applied.done)))
        building.replace(found.baseline_path)
        return applied

    return await asyncio.to_thread(work)


def selected(changes: Changes, paths: Collection[str]) -> Iterator[Change]:
    wanted = set(paths)
    for change in changes.all:
        name = shown_name(change.name)
        is_parent = change.new is not None and change.new.type == "directory"
        if name in wanted or (is_parent and any(one.startswith(f"{name}/") for one in wanted)):
            yield change


def shown_name(name: bytes) -> str:
    """As a list of changes tells it."""
    return name.decode(errors="replace")


async def patch_of(found: Found) -> AsyncIterator[bytes]:
    """In a thread and by way of a file: to compare texts takes long, and the patch may be larger than memory."""
    with tempfile.TemporaryFile() as file:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(_write_patch, found, file, loop)
        file.seek(0)
        while data := await asyncio.to_thread(file.read, _CHUNK):
            yield data


def _write_patch(found: Found, file: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
    def read_new(name: bytes, limit: int) -> bytes:
        reading = _read(found.files, found.path + b"/" + name, limit)
        return asyncio.run_coroutine_threadsafe(reading, loop).result()

    with HostTree(found.source) as tree:
        for line in render_diff(found.changes, tree.read, read_new, is_terminal=False):
            file.write(line.encode("utf-8", "surrogateescape"))


async def _read(files: Files, path: bytes, limit: int, offset: int = 0) -> bytes:
    data = bytearray()
    async for piece in files.read(path, offset=offset, length=limit):
        data += piece[: limit - len(data)]
        if len(data) >= limit:
            break
    return bytes(data)
