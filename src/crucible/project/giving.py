"""What a sandbox is given of this host that nobody named piece by piece: directory, home, variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crucible.config import load_config
from crucible.errors import PathRefused
from crucible.project.passing import pass_variables
from crucible.sandbox.mounts import home_mount
from crucible.sandbox.workspace.credentials import Withheld, is_named_credential, withheld_of
from crucible.sandbox.workspace.ignore import Ignore, load_ignore

LARGEST_BYTES = 512 << 20
MOST_FILES = 50_000
_ENOUGH_FILES = 20 * MOST_FILES


def give(
    fields: dict[str, Any],
    source: str | None,
    *,
    copies_directory: bool,
    copies_home: bool,
    variables: Sequence[str],
) -> tuple[str | None, list[str]]:
    """Adds to the fields of a specification; the directory for the workspace, and the lines that say all of it."""
    told = []
    if copies_directory:
        source = os.path.realpath(".")
        if is_named_credential(Path(source)):
            raise PathRefused(
                f"{source} may hold credentials, and is not copied unasked",
                hint="Name it with --dir, or leave it out with --no-mount-cwd",
            )
        check_size(Path(source), is_home=False, option="--no-mount-cwd")
        told.append(f"a copy of {source} as the workspace")
    if copies_home:
        home = os.path.realpath(Path.home())
        check_size(Path(home), is_home=True, option="--no-mount-home")
        fields["mounts"] = [*fields.get("mounts", ()), str(home_mount(home))]
        told.append(f"a copy of {home} without caches and credentials")
    if variables:
        passed = pass_variables(variables, os.environ)
        fields["environment"] = {**passed.variables, **fields.get("environment", {})}
        kept = f" ({passed.kept} stay here)" if passed.kept else ""
        told.append(f"{len(passed.variables)} variables{kept}")
    return source, [f"The sandbox gets {'; '.join(told)}"]


def check_size(source: Path, *, is_home: bool, option: str) -> None:
    """What nobody named should not take minutes to copy: beyond the limits it is refused, with the figures."""
    withheld = withheld_of(source, include=False, own_state=load_config().home, is_home=is_home)
    files = size = 0
    for status in _files(os.fsencode(source), load_ignore(source), withheld or Withheld()):
        files += 1
        size += status.st_size
        if files == _ENOUGH_FILES:
            break
    if files > MOST_FILES or size > LARGEST_BYTES:
        raise PathRefused(
            f"{source} holds {files:,} files with {size >> 20:,} MiB, too much to copy unasked"
            f" (at most {MOST_FILES:,} files with {LARGEST_BYTES >> 20} MiB)",
            hint=f"Leave it out with {option}, or name what is needed with --mount SOURCE:TARGET",
        )


def _files(top: bytes, ignore: Ignore, withheld: Withheld) -> Iterator[os.stat_result]:
    waiting = [b""]
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(top + b"/" + prefix) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            name, is_directory = prefix + entry.name, entry.is_dir(follow_symlinks=False)
            if ignore.covers(name, is_directory=is_directory):
                continue
            if withheld.covers(name, is_directory=is_directory):
                continue
            if is_directory:
                waiting.append(name + b"/")
            else:
                yield entry.stat(follow_symlinks=False)
