"""Packs a tar into a squashfs, and proves that what can be read back is what was put in.

The proof is needed: squashfs-tools 4.5.1 with uncompressed fragments gave two files each other's end in one run of
three, silently, and some later versions have races of the same kind.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from crucible.errors import BuildFailed
from crucible.images.commands import follow

# Not compressed: reading is then a copy, which is what counts where the guest's processor is emulated. Fragments and
# the search for duplicates save 5 % and are where the races were.
OPTIONS = (
    *("-noI", "-noD", "-noF", "-noX", "-b", "64K", "-no-fragments", "-no-duplicates"),
    *("-no-xattrs", "-root-mode", "755", "-reproducible"),
)
_CHUNK_BYTES = 1 << 20


def pack(archive: Path, target: Path, *, newest_s: int, as_root: tuple[str, ...]) -> None:
    """Times later than `newest_s` are the build's own, and are set back to it.

    `as_root` are the words before the command that make it believe to be root: sqfstar gives the topmost directory to
    whoever runs it, whatever its options say.
    """
    argv = [*as_root, "sqfstar", *OPTIONS, "-root-time", str(newest_s)]
    argv += ["-quiet", "-no-progress", str(target)]
    with archive.open("rb") as tar:
        follow(argv, on_line=_ignore, stdin=tar, extra={"SOURCE_DATE_EPOCH": str(newest_s)})


def compare(archive: Path, packed: Path, scratch: Path) -> None:
    """Unpacks the squashfs into `scratch` and compares every file with the tar it was made from."""
    # An ordinary user cannot make the device nodes in it; that alone is no failure.
    argv = ["unsquashfs", "-quiet", "-no-progress", "-no-exit-code", "-no-xattrs"]
    follow([*argv, "-d", str(scratch), str(packed)], on_line=_ignore)
    with tarfile.open(archive) as tree:
        for member in tree:
            if member.isreg() and not _same(tree, member, scratch / member.name):
                raise BuildFailed(
                    f"sqfstar stored {member.name.removeprefix('.')} wrongly",
                    hint="Run `crucible setup` again; if it stays, another squashfs-tools is needed",
                )
    shutil.rmtree(scratch)


def _same(tree: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bool:
    original = tree.extractfile(member)
    if original is None or not path.is_file() or path.stat().st_size != member.size:
        return False
    if not os.access(path, os.R_OK):
        path.chmod(0o600)
    with original, path.open("rb") as stored:
        while chunk := original.read(_CHUNK_BYTES):
            if stored.read(len(chunk)) != chunk:
                return False
    return True


def _ignore(line: str) -> None:
    """Both programs say nothing of use while all goes well; `follow` keeps the end for an error."""
