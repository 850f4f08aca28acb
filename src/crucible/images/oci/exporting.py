"""Images into files: an OCI layout, its tar, and a tar that `docker load` takes: the same and one file more."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from crucible.errors import PathRefused
from crucible.images.oci.documents import MANIFEST_TYPES, OCI_INDEX
from crucible.images.oci.files import disk_errors, sync_directory
from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import RegistryReference
from crucible.images.oci.store import Store


class ExportFormat(StrEnum):
    OCI = "oci"
    OCI_ARCHIVE = "oci-archive"
    DOCKER_ARCHIVE = "docker-archive"


def export(
    store: Store, image: PulledImage, reference: RegistryReference, target: Path, form: ExportFormat
) -> None:
    """Writes beside the target and renames: it is there whole or not at all. Hold the store open."""
    if form == ExportFormat.OCI and target.exists():
        raise PathRefused(f"{target} exists already", hint="Name a directory that does not")
    store.verify(image)
    aside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with disk_errors(target):
            if form == ExportFormat.OCI:
                _write_layout(store, image, reference, aside)
            else:
                has_listing = form == ExportFormat.DOCKER_ARCHIVE
                _write_tar(store, image, reference, aside, has_listing=has_listing)
            aside.rename(target)
            sync_directory(target.parent)
    except OSError as error:
        raise PathRefused(f"{target} cannot be written: {error.strerror}") from None
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _write_layout(
    store: Store, image: PulledImage, reference: RegistryReference, target: Path
) -> None:
    for name, content in _files(store, image, reference, has_listing=False):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content)


def _write_tar(
    store: Store,
    image: PulledImage,
    reference: RegistryReference,
    target: Path,
    *,
    has_listing: bool,
) -> None:
    with target.open("wb") as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, content in _files(store, image, reference, has_listing=has_listing):
                member = tarfile.TarInfo(name)
                if isinstance(content, Path):
                    member.size = content.stat().st_size
                    with content.open("rb") as blob:
                        tar.addfile(member, blob)
                else:
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        stream.flush()
        os.fsync(stream.fileno())


def _files(
    store: Store, image: PulledImage, reference: RegistryReference, *, has_listing: bool
) -> Iterator[tuple[str, bytes | Path]]:
    """The same image gives the same files in the same order."""
    manifest = store.blobs.path(image.digest)
    yield "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
    yield "index.json", _index(store, image, reference)
    if has_listing:
        yield "manifest.json", _listing(image, reference)
    yield _path(image.digest), manifest
    yield _path(image.config_digest), store.blobs.path(image.config_digest)
    for digest, layer in {layer.digest: layer for layer in image.layers}.items():
        yield _path(digest), layer.path


def _index(store: Store, image: PulledImage, reference: RegistryReference) -> bytes:
    manifest = store.manifest(image.reference, image.digest)
    annotations = {"io.containerd.image.name": str(reference)}
    if reference.tag:
        annotations["org.opencontainers.image.ref.name"] = reference.tag
    entry = {
        "mediaType": manifest.media_type if manifest.media_type in MANIFEST_TYPES else "",
        "digest": image.digest,
        "size": store.blobs.path(image.digest).stat().st_size,
        "annotations": annotations,
    }
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    return json.dumps(document, separators=(",", ":")).encode()


def _listing(image: PulledImage, reference: RegistryReference) -> bytes:
    item = {
        "Config": _path(image.config_digest),
        "RepoTags": [reference.familiar] if reference.tag and not reference.digest else None,
        "Layers": [_path(layer.digest) for layer in image.layers],
    }
    return json.dumps([item], separators=(",", ":")).encode()


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
