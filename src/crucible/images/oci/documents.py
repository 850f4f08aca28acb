"""Manifests, indexes and configurations: bytes from elsewhere → checked values. Caps first, then parsing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from crucible.errors import ImageMalformed, ImageTooLarge, ImageUnsupported
from crucible.images.oci.digests import is_digest
from crucible.images.oci.model import Descriptor, ImageConfig, Platform

MAX_MANIFEST_BYTES = 4 << 20
MAX_CONFIG_BYTES = 8 << 20
MAX_LAYERS = 512
MAX_ENTRIES = 4096
_MAX_SIZE = 1 << 50

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+"

MANIFEST_TYPES = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEX_TYPES = (OCI_INDEX, DOCKER_LIST)
_CONFIG_TYPES = (OCI_CONFIG, DOCKER_CONFIG)
_LAYER_TYPES = frozenset(
    (
        *(f"{OCI_LAYER}{kind}" for kind in ("", "+gzip", "+zstd")),
        *(f"{OCI_LAYER.replace('layer.', 'layer.nondistributable.')}{k}" for k in ("", "+gzip")),
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One image for one platform."""

    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of an index. `name` is what its annotations call it, if anything."""

    descriptor: Descriptor
    platform: Platform | None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    media_type: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The config document: how to run the image, and the digests of its layers as plain tars."""

    config: ImageConfig
    diff_ids: tuple[str, ...]


def parse_document(reference: str, data: bytes, content_type: str = "") -> Manifest | Index:
    """A manifest of layers that can be unpacked, or an index."""
    document = parse_any_document(reference, data, content_type)
    for layer in document.layers if isinstance(document, Manifest) else ():
        if layer.media_type not in _LAYER_TYPES:
            raise ImageUnsupported(
                reference, f"it has a layer of the type {layer.media_type[:120]!r}"
            )
    return document


def parse_any_document(reference: str, data: bytes, content_type: str = "") -> Manifest | Index:
    """Also a manifest of something else than an image, such as what a builder tells about how it made one.

    What could be read as manifest and index is refused: two readers might differ.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ImageTooLarge(reference, "The manifest", len(data), MAX_MANIFEST_BYTES)
    document = _object(reference, _json(reference, data), "the manifest")
    declared = _text(reference, document, "mediaType")
    sent = content_type.partition(";")[0].strip().lower()
    if declared and sent in (*MANIFEST_TYPES, *INDEX_TYPES) and sent != declared:
        raise ImageMalformed(reference, f"it was sent as {sent} and calls itself {declared}")
    kind = declared or sent
    if document.get("schemaVersion") == 1 or kind.startswith(_SCHEMA_1):
        raise ImageUnsupported(
            reference,
            "it has Docker's manifest schema 1, which ended in 2017 and cannot be verified",
            hint="Push it again with a current tool",
        )
    if document.get("schemaVersion") != 2:
        raise ImageMalformed(reference, "its schemaVersion is not 2")
    is_index, is_manifest = "manifests" in document, "layers" in document or "config" in document
    if is_index == is_manifest:
        raise ImageMalformed(reference, "it is neither a manifest nor an index, or both")
    if is_index:
        return _index(reference, document, _kind(reference, kind, INDEX_TYPES))
    return _manifest(reference, document, _kind(reference, kind, MANIFEST_TYPES))


def parse_configuration(reference: str, data: bytes, manifest: Manifest) -> Configuration:
    """The config document of that manifest: both must count the same layers."""
    if len(data) > MAX_CONFIG_BYTES:
        raise ImageTooLarge(reference, "The configuration", len(data), MAX_CONFIG_BYTES)
    document = _object(reference, _json(reference, data), "the configuration")
    diff_ids = configuration_layers(reference, document)
    if len(diff_ids) != len(manifest.layers):
        raise ImageMalformed(
            reference,
            f"its manifest has {len(manifest.layers)} layers, its configuration {len(diff_ids)}",
        )
    return Configuration(config=_image_config(reference, document), diff_ids=diff_ids)


def configuration_layers(reference: str, document: Mapping[str, object]) -> tuple[str, ...]:
    root = _object(reference, document.get("rootfs", {}), "rootfs")
    diff_ids = _texts(reference, root, "diff_ids")
    for digest in diff_ids:
        if not is_digest(digest):
            raise ImageMalformed(reference, f"{digest[:80]!r} is no digest of a layer")
    return diff_ids


def _json(reference: str, data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ImageMalformed(reference, "a document of it is not JSON") from None


def _kind(reference: str, kind: str, allowed: tuple[str, ...]) -> str:
    """Some registries send no type, or `application/json`: then OCI's is meant."""
    if kind in allowed:
        return kind
    if kind in ("", "application/json", "application/octet-stream", "text/plain"):
        return allowed[0]
    raise ImageUnsupported(reference, f"its manifest is of the type {kind[:120]!r}")


def _manifest(reference: str, document: Mapping[str, object], kind: str) -> Manifest:
    config = _descriptor(reference, document.get("config"))
    if config.media_type not in _CONFIG_TYPES:
        raise ImageUnsupported(
            reference, f"it is no image but something else of the type {config.media_type[:120]!r}"
        )
    if config.size > MAX_CONFIG_BYTES:
        raise ImageTooLarge(reference, "The configuration", config.size, MAX_CONFIG_BYTES)
    listed = _list(reference, document, "layers")
    if len(listed) > MAX_LAYERS:
        raise ImageMalformed(reference, f"it has {len(listed)} layers, more than {MAX_LAYERS}")
    layers = tuple(_descriptor(reference, layer) for layer in listed)
    return Manifest(media_type=kind, config=config, layers=layers)


def _index(reference: str, document: Mapping[str, object], kind: str) -> Index:
    listed = _list(reference, document, "manifests")
    if len(listed) > MAX_ENTRIES:
        raise ImageMalformed(reference, f"its index has {len(listed)} entries")
    entries = []
    for line in listed:
        fields = _object(reference, line, "an entry of the index")
        notes = _object(reference, fields.get("annotations") or {}, "annotations")
        # containerd's is the full name; OCI's own is often only the tag.
        name = _text(reference, notes, "io.containerd.image.name") or _text(
            reference, notes, "org.opencontainers.image.ref.name"
        )
        entries.append(
            Entry(
                descriptor=_descriptor(reference, fields),
                platform=_platform(reference, fields.get("platform")),
                name=name,
            )
        )
    return Index(media_type=kind, entries=tuple(entries))


def _platform(reference: str, value: object) -> Platform | None:
    if value is None:
        return None
    fields = _object(reference, value, "platform")
    return Platform(
        os=_text(reference, fields, "os"),
        architecture=_text(reference, fields, "architecture"),
        variant=_text(reference, fields, "variant"),
    )


def _descriptor(reference: str, value: object) -> Descriptor:
    fields = _object(reference, value, "a descriptor")
    digest, size = _text(reference, fields, "digest"), fields.get("size")
    if not is_digest(digest):
        raise ImageMalformed(reference, f"{digest[:80]!r} is no digest")
    if type(size) is not int or not 0 <= size <= _MAX_SIZE:
        raise ImageMalformed(reference, f"{digest} has no size that can be")
    return Descriptor(digest=digest, media_type=_text(reference, fields, "mediaType"), size=size)


def _image_config(reference: str, document: Mapping[str, object]) -> ImageConfig:
    inner = _object(reference, document.get("config") or {}, "config")
    pairs = (entry.partition("=") for entry in _texts(reference, inner, "Env"))
    labels = _object(reference, inner.get("Labels") or {}, "Labels")
    return ImageConfig(
        entrypoint=_texts(reference, inner, "Entrypoint"),
        command=_texts(reference, inner, "Cmd"),
        environment=tuple((name, value) for name, _, value in pairs if name),
        user=_text(reference, inner, "User"),
        workdir=_text(reference, inner, "WorkingDir"),
        labels=tuple((name, _text(reference, labels, name)) for name in sorted(labels)),
        exposed_ports=_keys(reference, inner, "ExposedPorts"),
        volumes=_keys(reference, inner, "Volumes"),
        stop_signal=_text(reference, inner, "StopSignal"),
        architecture=_text(reference, document, "architecture"),
        os=_text(reference, document, "os"),
        variant=_text(reference, document, "variant"),
        created=_text(reference, document, "created"),
    )


def _object(reference: str, value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ImageMalformed(reference, f"{what} is not an object")
    return value


def _list(reference: str, fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name) or []
    if not isinstance(value, list):
        raise ImageMalformed(reference, f"{name!r} is not a list")
    return value


def _keys(reference: str, fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    names = _object(reference, fields.get(name) or {}, name)
    return tuple(_clean(reference, key, name) for key in sorted(names))


def _texts(reference: str, fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    return tuple(_clean(reference, item, name) for item in _list(reference, fields, name))


def _text(reference: str, fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return "" if value is None else _clean(reference, value, name)


def _clean(reference: str, value: object, name: str) -> str:
    """NUL ends a text in every program that will read it; half a surrogate pair cannot be written at all."""
    if not isinstance(value, str) or "\0" in value:
        raise ImageMalformed(reference, f"{name[:80]!r} is not a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ImageMalformed(reference, f"{name[:80]!r} is not a text") from None
    return value
