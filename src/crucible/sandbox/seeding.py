"""Copies a directory of the host into a new sandbox and remembers what it looked like there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from crucible.errors import BadSetting, PathRefused
from crucible.images.catalog import Image
from crucible.images.report import NOTICE, Report
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.session import Session

BASELINE_NAME = "baseline.jsonl"
BASELINES = "baseline*.jsonl"


def baseline_name(target: str = "") -> str:
    """The file that tells what was copied in: of the workspace, or of the mount at that target."""
    if not target:
        return BASELINE_NAME
    import hashlib

    return f"baseline-{hashlib.sha256(os.fsencode(target)).hexdigest()[:16]}.jsonl"


def baseline_of(record: SandboxRecord, target: str = "") -> tuple[str, Path]:
    """The directory of the host that the workspace, or the writable mount at `target`, is a copy of; its baseline."""
    source = record.host_directory
    if target:
        from crucible.sandbox.mounts import parse_mount

        mounts = map(parse_mount, record.spec.mounts)
        source = next(
            (mount.source for mount in mounts if mount.is_writable and mount.target == target), None
        )
    path = record.directory / baseline_name(target)
    if source is None or not path.exists():
        raise BadSetting(
            f"Sandbox {record.name!r} was not made from a directory",
            hint="Create it with `crucible create NAME --dir PATH`, and start it",
        )
    return source, path


def copy_baselines(source: Path, target: Path) -> None:
    """For a copy of a sandbox, whose workspace came from the same place."""
    import shutil

    for baseline in source.glob(BASELINES):
        shutil.copy2(baseline, target)


def check_source(path: Path) -> Path:
    resolved = path.resolve()
    if not resolved.is_dir():
        raise PathRefused(f"{path} is not a directory", hint="Give --dir an existing directory")
    return resolved


async def upload(
    session: Session,
    source: Path,
    image: Image,
    directory: Path,
    report: Report,
    *,
    own_state: Path,
    include_credentials: bool,
) -> None:
    """The copy belongs to the image's user; the baseline is what `diff` compares with later.

    The baseline is what was read here, not what the guest says it got.
    """
    # Only who copies a directory pays for the packer.
    from crucible.sandbox.entries import to_line
    from crucible.sandbox.workspace.credentials import withheld_of
    from crucible.sandbox.workspace.ignore import load_ignore
    from crucible.sandbox.workspace.packing import pack_tree

    report("workspace", f"copying {source}")
    source = check_source(source)
    withheld = withheld_of(source, include=include_credentials, own_state=own_state)
    packing = pack_tree(source, ignore=load_ignore(source), withheld=withheld, hashed=True)
    await session.files.tar_in(image.workspace.encode(), in_thread(packing), owner=image.owner)
    building = directory / f".{BASELINE_NAME}"
    with building.open("wb") as file:
        file.writelines(map(to_line, packing.manifest().entries.values()))
    building.rename(directory / BASELINE_NAME)
    if withheld is not None and (told := withheld.told()):
        report(NOTICE, told)


async def in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Draws from a blocking iterator without blocking others."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
