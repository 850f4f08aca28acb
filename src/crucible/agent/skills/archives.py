"""Archives of skills, unpacked within their limits. Input is hostile."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from crucible.errors import BadSkill

DOCUMENT_NAME = "SKILL.md"
MOST_FILES = 2000
LARGEST_SKILL = 64 << 20
# With what an archive adds to each file.
LARGEST_ARCHIVE = LARGEST_SKILL + MOST_FILES * (4 << 10)


def unpack(source: Path, target: Path) -> Path:
    """Where in `target` the skill lies now. Raises BadSkill."""
    try:
        with _plain_archive(source) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            count, size = 0, 0
            for member in archive:
                count, size = count + 1, size + member.size
                if count > MOST_FILES or size > LARGEST_SKILL:
                    raise BadSkill(f"{source} holds more than a skill may")
                if not (member.isfile() or member.isdir()):
                    raise BadSkill(f"{member.name!r:.80} of the archive is a link or a device")
                archive.extract(member, target, filter="data")
    except FileNotFoundError:
        raise BadSkill(f"{source} does not exist") from None
    except tarfile.FilterError as error:
        raise BadSkill(f"{error.tarinfo.name!r:.80} of the archive leads out of it") from None
    except OSError as error:
        raise BadSkill(f"{source} is no archive of a skill: {error.strerror or error}") from None
    except (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise BadSkill(f"{source} is no archive of a skill: {error}") from None
    return _only_directory(target)


@contextmanager
def _plain_archive(source: Path) -> Iterator[IO[bytes]]:
    """Not compressed, and no larger than it may be: a header of an archive is read whole, whatever it says it has."""
    with source.open("rb") as file, tempfile.TemporaryFile() as plain:
        start = file.read(6)
        file.seek(0)
        with _decompressed(file, start) as data:
            left = LARGEST_ARCHIVE
            while piece := data.read(1 << 20):
                left -= len(piece)
                if left < 0:
                    raise BadSkill(f"{source} holds more than a skill may")
                plain.write(piece)
        plain.seek(0)
        yield plain


def _decompressed(file: IO[bytes], start: bytes) -> IO[bytes]:
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(file))
    if start.startswith(b"BZh"):
        return cast(IO[bytes], bz2.open(file))
    if start.startswith(b"\xfd7zXZ\0"):
        return cast(IO[bytes], lzma.open(file))
    return file


def _only_directory(place: Path) -> Path:
    """Archives often hold the skill's directory, not its files."""
    if (place / DOCUMENT_NAME).exists():
        return place
    inside = list(place.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        return inside[0]
    raise BadSkill(f"The archive has no {DOCUMENT_NAME}")
