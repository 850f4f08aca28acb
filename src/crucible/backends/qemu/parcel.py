"""A saved machine as one file: for carrying a snapshot elsewhere and taking it in again.

A parcel is a zstd stream: a magic line, the length and the sha256 of a JSON header, the header, then for
each file its extents of data and an end mark. The header has the sha256 of every file, over its size and
its extents. What is read may come from anywhere: names, sizes and offsets are checked before anything is
written, and all contents before anything is used. That proves that a parcel is as it was packed, not by whom.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crucible.backends.qemu import disks, memory, saved
from crucible.errors import (
    CrucibleError,
    HostDiskFull,
    PathRefused,
    StateDamaged,
    TemplateDamaged,
)
from crucible.images.zstandard import ZstdError, ZstdFile

MAGIC = b"crucible-snapshot 3\n"
_ANY_MAGIC = b"crucible-snapshot "
_GZIP = b"\x1f\x8b"
# The fastest that packs: images and memories are large, and mostly go to a disk beside.
_LEVEL = 1
_LARGEST_HEADER = 1 << 20
_LARGEST_FILE = 1 << 41
_EXTENT = struct.Struct(">QI")
_END = _EXTENT.pack(0, 0)
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(
    r"(ram|state|manifest\.json|root\.squashfs|disk-0\.raw|disk-[1-9]\d{0,2}\.qcow2)\Z"
)
_NEEDED = {"ram", "state", "manifest.json", "root.squashfs", "disk-0.raw", "disk-1.qcow2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    name: str
    size: int
    sha256: str


class ParcelDamaged(CrucibleError):
    code = "snapshot-damaged"

    def __init__(self, why: str) -> None:
        super().__init__(f"The file is not a usable snapshot: {why}", hint="Export it again")


def pack(directory: Path, target: Path, facts: dict[str, Any]) -> None:
    """Writes aside and renames, so that a file under the final name is whole."""
    paths = sorted(path for path in directory.iterdir() if _NAME.match(path.name))
    members = [[path.name, path.stat().st_size, _digest(path)] for path in paths]
    header = json.dumps({"facts": facts, "files": members}).encode()
    building = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with building.open("xb") as raw, ZstdFile(raw, "wb", level=_LEVEL) as out:
            out.write(MAGIC + struct.pack(">I", len(header)))
            out.write(hashlib.sha256(header).digest() + header)
            for path in paths:
                _pack_file(path, out)
            out.close()
            os.fsync(raw.fileno())
        building.chmod(0o600)
        building.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostDiskFull(str(target)) from error
        raise PathRefused(f"{target} cannot be written: {error.strerror}") from error
    finally:
        building.unlink(missing_ok=True)


def unpack(source: Path, directory: Path) -> dict[str, Any]:
    """Fills an empty directory from a parcel and gives the facts it was packed with."""
    try:
        with source.open("rb") as raw, ZstdFile(raw, "rb") as stream:
            if raw.read(len(_GZIP)) == _GZIP:
                raise ParcelDamaged("another Crucible wrote it")
            raw.seek(0)
            facts, members = _read_header(stream)
            for member in members:
                _unpack_file(stream, directory / member.name, member)
            # Only the end of the stream tells whether all of it came as it was sent.
            if stream.read(1):
                raise ParcelDamaged("it goes on after its end")
        saved.verify(directory)
        saved.describe(_redescribed(directory))
    except (EOFError, ZstdError) as error:
        raise ParcelDamaged(str(error)) from error
    except (TemplateDamaged, StateDamaged) as error:
        raise ParcelDamaged(error.message) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostDiskFull(str(directory)) from error
        raise PathRefused(f"{source} cannot be read: {error.strerror}") from error
    return facts


def _digest(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "big"))
    with path.open("rb") as file:
        for offset, data in _extents(file.fileno(), size):
            digest.update(_EXTENT.pack(offset, len(data)) + data)
    return digest.hexdigest()


def _pack_file(path: Path, out: IO[bytes]) -> None:
    with path.open("rb") as file:
        for offset, data in _extents(file.fileno(), path.stat().st_size):
            out.write(_EXTENT.pack(offset, len(data)) + data)
    out.write(_END)


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    for offset in memory.chunks_with_data(descriptor, size):
        data = os.pread(descriptor, memory.CHUNK, offset)
        if not memory.is_zero(data):
            yield offset, data


def _read_header(stream: IO[bytes]) -> tuple[dict[str, Any], list[Member]]:
    began = stream.read(len(MAGIC))
    if began != MAGIC:
        is_ours = began.startswith(_ANY_MAGIC)
        raise ParcelDamaged(
            "another Crucible wrote it" if is_ours else "it does not begin like one"
        )
    length = struct.unpack(">I", _exactly(stream, 4))[0]
    if length > _LARGEST_HEADER:
        raise ParcelDamaged("its header is too long")
    sha256 = _exactly(stream, 32)
    text = _exactly(stream, length)
    if hashlib.sha256(text).digest() != sha256:
        raise ParcelDamaged("its header was changed")
    try:
        header = json.loads(text)
        members = [
            Member(name=str(name), size=int(size), sha256=str(digest))
            for name, size, digest in header["files"]
        ]
        facts = dict(header["facts"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ParcelDamaged(f"its header cannot be read ({error})") from None
    _check_members(members)
    return facts, members


def _check_members(members: list[Member]) -> None:
    names = [member.name for member in members]
    if len(set(names)) != len(names) or not all(_NAME.match(name) for name in names):
        raise ParcelDamaged("it names files that no snapshot has")
    if sum(name.startswith("disk-") for name in names) > disks.MOST_LAYERS:
        raise ParcelDamaged("its disk has more layers than any machine can have")
    if not set(names) >= _NEEDED:
        raise ParcelDamaged(f"it lacks {min(_NEEDED - set(names))}")
    if any(not 0 <= member.size <= _LARGEST_FILE for member in members):
        raise ParcelDamaged("a file in it is too large")
    if not all(_DIGEST.match(member.sha256) for member in members):
        raise ParcelDamaged("a file in it has no digest")


def _unpack_file(stream: IO[bytes], path: Path, member: Member) -> None:
    digest = hashlib.sha256(member.size.to_bytes(8, "big"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, member.size)
        written = 0
        while (mark := _exactly(stream, _EXTENT.size)) != _END:
            offset, length = _EXTENT.unpack(mark)
            if not 0 < length <= memory.CHUNK or offset + length > member.size:
                raise ParcelDamaged(f"{path.name} has data beyond its end")
            if offset < written:
                raise ParcelDamaged(f"{path.name} has data that is out of order")
            data = _exactly(stream, length)
            digest.update(mark + data)
            os.pwrite(descriptor, data, offset)
            written = offset + length
    finally:
        os.close(descriptor)
    if digest.hexdigest() != member.sha256:
        raise ParcelDamaged(f"{path.name} has other contents than it was packed with")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise ParcelDamaged("it was cut short")
    return data


def _redescribed(directory: Path) -> saved.SavedMachine:
    """The manifest again, with the times that the files have here."""
    for layer in disks.find_chain(directory).layers:
        disks.layer_size(layer)
    return saved.read_facts(directory)
