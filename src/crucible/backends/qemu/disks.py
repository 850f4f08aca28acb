"""Disks of machines: a blank filesystem, and qcow2 layers frozen one upon the other.

Every layer a sandbox needs is hard-linked into its own directory, so nothing that is evicted or
removed elsewhere can take a disk away from it. Layers lie on each other in the order of their
numbers, some of which may be missing: those layers were merged into one above them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from crucible.errors import BuildFailed, HostDiskFull, StateDamaged
from crucible.sandbox.backend import EXCHANGE_BYTES
from crucible.sandbox.spec import LARGEST_DISK_MIB
from crucible.values import dataclass

ROOT_NAME = "root.squashfs"
BLANK_NAME = "disk-0.raw"
_BLANK_GENERATION = 2
EXCHANGE_NAME = "exchange.raw"
_CLUSTER_BITS = 16
_CLUSTER = 1 << _CLUSTER_BITS
_QCOW2_MAGIC = 0x514649FB
_QCOW2_VERSION = 3
_IS_DIRTY = 1
# Of a layer's header, up to the features that a reader must know.
_HEADER = struct.Struct(">IIQIIQIIQQIIQQ")
_LARGEST_BYTES = LARGEST_DISK_MIB << 20
# Layers that a copy may start from. A disk with more is merged before it is frozen.
LONGEST_CHAIN = 16
# What a disk reaches only where merging fails again and again, and what nothing may exceed: the VMM
# needs two descriptors for each layer, and tells of each in an answer that must not be too long.
MOST_LAYERS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskChain:
    """The writable disk, lowest layer first; only the last one is ever written."""

    layers: tuple[Path, ...]

    @property
    def top(self) -> Path:
        return self.layers[-1]

    @property
    def size_bytes(self) -> int:
        return layer_size(self.top)


def find_chain(directory: Path) -> DiskChain:
    blank = directory / BLANK_NAME
    layers = sorted(directory.glob("disk-*.qcow2"), key=number_of)
    if not layers or not blank.exists():
        raise StateDamaged(f"The disk of the sandbox in {directory} is gone")
    return DiskChain(layers=(blank, *layers))


def number_of(layer: Path) -> int:
    return int(layer.stem.removeprefix("disk-"))


def layer_path(directory: Path, number: int) -> Path:
    return directory / (BLANK_NAME if number == 0 else f"disk-{number}.qcow2")


def close_gaps(directory: Path) -> DiskChain:
    """Numbers the layers of a machine that does not run from 0 on; at no moment out of order."""
    for number, layer in enumerate(find_chain(directory).layers):
        if number_of(layer) != number:
            layer.rename(layer_path(directory, number))
    return find_chain(directory)


def choose_base(sizes: Sequence[int]) -> int | None:
    """Upon which layer the top shall lie after a merge. None: the chain is not too long yet.

    `sizes` are the bytes that the layers take, lowest first. A lower layer is merged only if it is no
    larger than what is merged above it: so what is large is seldom copied. The blank and the layer of
    the template, which are everybody's, stay.
    """
    if len(sizes) <= LONGEST_CHAIN:
        return None
    base = max(1, LONGEST_CHAIN // 2 - 1)
    merged = sum(sizes[base + 1 : -1])
    while base > 1 and sizes[base] <= merged:
        merged += sizes[base]
        base -= 1
    return base


def bytes_taken(layer: Path) -> int:
    return layer.stat().st_blocks * 512


def make_exchange(directory: Path) -> Path:
    """The disk on which large input is laid down for the machine, which can only read it."""
    path = directory / EXCHANGE_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, EXCHANGE_BYTES)
    finally:
        os.close(descriptor)
    return path


def clear(directory: Path) -> None:
    """Removes what a start that was cut short may have left."""
    for path in (*directory.glob("disk-*"), directory / ROOT_NAME):
        path.unlink(missing_ok=True)


def extend_chain(frozen: Sequence[Path], directory: Path, *, size_mib: int) -> DiskChain:
    """Links the frozen layers into the directory and puts an empty one on top."""
    layers = []
    for number, layer in enumerate(frozen):
        target = layer_path(directory, number)
        if target != layer:
            with contextlib.suppress(FileExistsError):
                os.link(layer, target)
        layers.append(target)
    top = layer_path(directory, len(layers))
    create_layer(top, size_mib << 20)
    return DiskChain(layers=(*layers, top))


def create_layer(path: Path, size: int) -> None:
    """An empty qcow2 file. Written by hand because starting qemu-img costs more than a restore."""
    entries_per_table = _CLUSTER // 8
    table_entries = -(-size // (_CLUSTER * entries_per_table))
    l1_clusters = -(-table_entries * 8 // _CLUSTER)
    used = 3 + l1_clusters
    header = struct.pack(
        ">IIQIIQIIQQIIQQQQII",
        _QCOW2_MAGIC, _QCOW2_VERSION, 0, 0, _CLUSTER_BITS, size, 0, table_entries, 3 * _CLUSTER,
        _CLUSTER, 1, 0, 0, 0, 0, 0, 4, 104,
    )  # fmt: skip
    try:
        with path.open("xb") as file:
            file.truncate(used * _CLUSTER)
            file.write(header)
            file.seek(_CLUSTER)
            file.write(struct.pack(">Q", 2 * _CLUSTER))
            file.seek(2 * _CLUSTER)
            file.write(struct.pack(">H", 1) * used)
    except OSError as error:
        raise _translate(error, path) from error
    path.chmod(0o600)


def layer_size(path: Path) -> int:
    """The size a layer shows to the machine, from its header.

    Machines write their layers themselves, and a VMM that was taken over may write anything: what
    names other files, or is not as we make them, is refused.
    """
    if path.suffix == ".raw":
        return path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise StateDamaged(f"The disk {path} is damaged: it has no header")
    magic, version, _, backing, bits, size, crypt, *_, snapshots, _, features = _HEADER.unpack(
        header
    )
    if (magic, version, bits) != (_QCOW2_MAGIC, _QCOW2_VERSION, _CLUSTER_BITS):
        raise StateDamaged(f"The disk {path} is damaged: its header is not one of ours")
    # Of the backing file it is the name's length that tells: QEMU writes a place for no name, too.
    if backing or crypt or snapshots or features & ~_IS_DIRTY or not 0 < size <= _LARGEST_BYTES:
        raise StateDamaged(
            f"The disk {path} was tampered with: its header asks for what we never use"
        )
    return int(size)


def make_blank(directory: Path, size_mib: int) -> Path:
    """An empty ext4 filesystem, made once per size and shared by everyone as the lowest layer."""
    path = directory / f"{size_mib}-{_BLANK_GENERATION}.raw"
    if path.exists():
        return path
    from crucible.system import require

    directory.mkdir(parents=True, exist_ok=True)
    building = directory / f".{size_mib}.{os.getpid()}"
    try:
        with building.open("wb") as file:
            file.truncate(size_mib << 20)
        subprocess.run(
            [
                *require("mkfs.ext4"), "-q", "-F", "-m", "0", "-L", "crucible",
                "-J", f"size={_journal_mib(size_mib)}", "-U", "6372756c-0000-4000-8000-000000000001",
                "-E", f"lazy_itable_init=0,lazy_journal_init=1,nodiscard,hash_seed={_HASH_SEED}",
                str(building),
            ],
            check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
        )  # fmt: skip
        building.chmod(0o400)
        building.rename(path)
    except subprocess.CalledProcessError as error:
        raise BuildFailed(f"mkfs.ext4 failed: {error.stderr.decode(errors='replace')}") from error
    except OSError as error:
        raise _translate(error, path) from error
    finally:
        building.unlink(missing_ok=True)
    return path


def _journal_mib(size_mib: int) -> int:
    """Small, since it is part of every copy; but with less, a large filesystem cannot grow online."""
    return 32 if size_mib >= 1024 else 8


_HASH_SEED = "6372756c-0000-4000-8000-000000000002"


def _translate(error: OSError, path: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostDiskFull(str(path))
    return error
