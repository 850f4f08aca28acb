"""Layers as tests want them, and a squashfs read back by another program than wrote it."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backports import zstd

from crucible.images.layers.limits import DEFAULT, Limits
from crucible.images.layers.rootfs import Made, write_root
from crucible.images.oci.model import Compression, Layer

_TYPES = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "link": tarfile.LNKTYPE,
    "fifo": tarfile.FIFOTYPE,
    "device": tarfile.CHRTYPE,
}


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a layer. `kind` is one of the words above; `target` is for both kinds of links."""

    name: str
    kind: str = "file"
    data: bytes = b""
    target: str = ""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: float = 1_000_000_000
    attributes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What came out under a name."""

    kind: str
    mode: int
    uid: int
    gid: int
    mtime_s: int
    data: bytes = b""
    target: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def tar_of(items: Sequence[Item], *, format: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format) as tar:
        for item in items:
            info = tarfile.TarInfo(item.name)
            info.type = _TYPES[item.kind]
            info.linkname = item.target
            info.size = len(item.data)
            info.mode, info.uid, info.gid, info.mtime = item.mode, item.uid, item.gid, item.mtime
            if item.attributes:
                info.pax_headers = {f"SCHILY.xattr.{k}": v for k, v in item.attributes.items()}
            tar.addfile(info, io.BytesIO(item.data))
    return packed.getvalue()


def layer_of(
    directory: Path, tar: bytes, compression: Compression = Compression.NONE, *, diff_id: str = ""
) -> Layer:
    packed = {
        Compression.NONE: lambda data: data,
        Compression.GZIP: gzip.compress,
        Compression.ZSTD: zstd.compress,
    }[compression](tar)
    return blob_of(directory, packed, compression, diff_id=diff_id or digest_of(tar))


def blob_of(directory: Path, packed: bytes, compression: Compression, *, diff_id: str) -> Layer:
    digest = digest_of(packed)
    path = directory / digest.removeprefix("sha256:")
    path.write_bytes(packed)
    return Layer(
        digest=digest,
        diff_id=diff_id,
        media_type="",
        size=len(packed),
        path=path,
        compression=compression,
    )


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def squash(
    directory: Path, *layers: Sequence[Item] | bytes, limits: Limits = DEFAULT
) -> tuple[Path, Made]:
    """The squashfs of layers given as items or as the bytes of a tar."""
    tars = [layer if isinstance(layer, bytes) else tar_of(layer) for layer in layers]
    target = directory / "root.squashfs"
    made = write_root([layer_of(directory, tar) for tar in tars], target, limits=limits)
    return target, made


def applied(
    directory: Path, *layers: Sequence[Item] | bytes, limits: Limits = DEFAULT
) -> dict[str, Seen]:
    """What the layers make, as another program sees it."""
    return read_back(squash(directory, *layers, limits=limits)[0])


def read_back(squashfs: Path) -> dict[str, Seen]:
    """Read by squashfs-tools-ng, which shares no line with our writer. A hard link shows what it is a link to."""
    packed = subprocess.run(["sqfs2tar", squashfs], check=True, capture_output=True).stdout
    kinds = {flag: kind for kind, flag in _TYPES.items()}
    seen: dict[str, Seen] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for info in tar:
            kind = kinds[info.type]
            content = tar.extractfile(info) if kind == "file" else None
            name = "" if info.name == "." else info.name.removeprefix("./")
            seen[name] = Seen(
                kind=kind,
                mode=info.mode,
                uid=info.uid,
                gid=info.gid,
                mtime_s=int(info.mtime),
                data=content.read() if content else b"",
                target=info.linkname.removeprefix("./") if kind == "link" else info.linkname,
                attributes={
                    key.removeprefix("SCHILY.xattr."): value
                    for key, value in info.pax_headers.items()
                    if key.startswith("SCHILY.xattr.")
                },
            )
    return seen
