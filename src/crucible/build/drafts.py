"""An image while it is made: how it wants to be run, and its layers so far. Written out it is an OCI image."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from crucible.errors import ImageBomb
from crucible.images.oci import platforms
from crucible.images.oci.documents import OCI_CONFIG, OCI_LAYER, OCI_MANIFEST
from crucible.images.oci.files import disk_errors
from crucible.images.oci.model import Compression, ImageConfig, Layer, PulledImage
from crucible.images.oci.store import Store

_CHUNK = 1 << 20
# The fastest: what is sent over a network is worth little more.
_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    config: ImageConfig
    layers: tuple[Layer, ...] = ()

    @property
    def diff_ids(self) -> tuple[str, ...]:
        return tuple(layer.diff_id for layer in self.layers)

    def with_layer(self, layer: Layer, *, epoch_s: int | None) -> Draft:
        """Only a step that was really done moves the time: what comes from the cache is the same image again."""
        config = replace(self.config, created=_moment(epoch_s))
        return Draft(config=config, layers=(*self.layers, layer))


def empty_draft() -> Draft:
    """`FROM scratch`."""
    platform = platforms.host_platform()
    return Draft(
        config=ImageConfig(
            os=platform.os, architecture=platform.architecture, variant=platform.variant
        )
    )


def draft_of(image: PulledImage) -> Draft:
    return Draft(config=image.config, layers=image.layers)


def write(store: Store, draft: Draft, reference: str) -> PulledImage:
    """Its documents, in the store, which is open; no name leads to them yet. The same draft gives the same bytes."""
    config = json.dumps(_configuration(draft), sort_keys=True, separators=(",", ":")).encode()
    config_digest = store.blobs.add(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {"mediaType": OCI_CONFIG, "digest": config_digest, "size": len(config)},
        "layers": [
            {"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size}
            for layer in draft.layers
        ],
    }
    digest = store.blobs.add(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
    return store.load(reference, digest)


def _configuration(draft: Draft) -> dict[str, object]:
    config = draft.config
    inner = {
        "Env": [f"{name}={value}" for name, value in config.environment],
        "Entrypoint": list(config.entrypoint),
        "Cmd": list(config.command),
        "User": config.user,
        "WorkingDir": config.workdir,
        "Labels": dict(config.labels),
        "ExposedPorts": {port: {} for port in config.exposed_ports},
        "Volumes": {path: {} for path in config.volumes},
        "StopSignal": config.stop_signal,
    }
    outer = {
        "architecture": config.architecture,
        "os": config.os,
        "variant": config.variant,
        "created": config.created,
    }
    return {
        **{name: value for name, value in outer.items() if value},
        "config": {name: value for name, value in inner.items() if value},
        "rootfs": {"type": "layers", "diff_ids": list(draft.diff_ids)},
    }


class LayerFile:
    """Takes a tar piece by piece into `path`, compressed, and makes a layer of it in the end."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self._path = path
        self._left = self._most = most_bytes
        self._hash = hashlib.sha256()
        self._file = path.open("wb")
        self._packed = gzip.GzipFile(
            filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._file, mtime=0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, data: bytes) -> int:
        """How tarfile wants it."""
        self._left -= len(data)
        if self._left < 0:
            raise ImageBomb(f"A step made a layer of more than {self._most} bytes")
        self._hash.update(data)
        with disk_errors(self._path):
            self._packed.write(data)
        return len(data)

    def finish(self, store: Store) -> Layer:
        with disk_errors(self._path):
            self._packed.close()
            self._file.close()
        with self._path.open("rb") as packed:
            digest = f"sha256:{hashlib.file_digest(packed, 'sha256').hexdigest()}"
            packed.seek(0)
            store.blobs.add_stream(iter(lambda: packed.read(_CHUNK), b""), digest)
        path = store.blobs.path(digest)
        return Layer(
            digest=digest,
            diff_id=f"sha256:{self._hash.hexdigest()}",
            media_type=f"{OCI_LAYER}+gzip",
            size=path.stat().st_size,
            path=path,
            compression=Compression.GZIP,
        )


def _moment(epoch_s: int | None) -> str:
    seconds = int(time.time()) if epoch_s is None else epoch_s
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
