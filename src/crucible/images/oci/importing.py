"""Images from files: OCI layouts, their tars, and what `docker save` writes, old and new, into the store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import (
    BadReference,
    DigestMismatch,
    ImageMalformed,
    ImageNotFound,
    ImageTooLarge,
    PathRefused,
)
from crucible.images.oci import platforms
from crucible.images.oci.boxes import Box, open_box, read
from crucible.images.oci.digests import digest_of, hasher
from crucible.images.oci.documents import (
    INDEX_TYPES,
    MAX_CONFIG_BYTES,
    MAX_LAYERS,
    MAX_MANIFEST_BYTES,
    OCI_CONFIG,
    OCI_LAYER,
    OCI_MANIFEST,
    Entry,
    Index,
    Manifest,
    configuration_layers,
    parse_configuration,
    parse_document,
)
from crucible.images.oci.model import Descriptor, Platform, PulledImage
from crucible.images.oci.pull import Pulling
from crucible.images.oci.reference import (
    ArchiveReference,
    LayoutReference,
    RegistryReference,
    parse_reference,
)
from crucible.images.oci.store import Store, compression_of_head

_MAX_DEPTH = 3
_UNFIT = re.compile(r"[^a-z0-9]+")
LocalReference = LayoutReference | ArchiveReference


@contextmanager
def imported(
    source: LocalReference, how: Pulling, name: RegistryReference | None = None
) -> Iterator[PulledImage]:
    """The image under `name`, else under what its file calls it; held in the store for the block."""
    if not source.path.exists():
        raise PathRefused(f"{source.path} does not exist")
    store = Store(how.home)
    with store.opened():
        with open_box(source.path, store.directory, how.settings.limit_bytes) as box:
            image = _Import(store=store, box=box, source=source, how=how).run(name)
        yield image


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A manifest that is in the store now. `names` is what the file calls it."""

    digest: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    store: Store
    box: Box
    source: LocalReference
    how: Pulling

    def run(self, name: RegistryReference | None) -> PulledImage:
        # `docker save` of today writes both: the layout has digests for everything, so it goes first.
        index = read(self.box, "index.json", MAX_MANIFEST_BYTES)
        if index is not None and self.box.size("oci-layout") is not None:
            found = self._from_layout(index)
        elif (listing := read(self.box, "manifest.json", MAX_MANIFEST_BYTES)) is not None:
            found = self._from_listing(listing)
        else:
            raise self._malformed("it holds neither an OCI layout nor what `docker save` writes")
        names = (name,) if name else self._names(found.names)
        image = self.store.load(str(names[0]), found.digest)
        self.how.ready(image)
        for given in names:
            self.store.tags.set(str(given), found.digest, found.digest)
        return image

    def _from_layout(self, data: bytes) -> _Found:
        index = parse_document(str(self.source), data)
        if not isinstance(index, Index):
            raise self._malformed("its index.json is no index")
        entry = self._entry(index)
        descriptor = entry.descriptor
        for _ in range(_MAX_DEPTH):
            document = parse_document(str(self.source), self._document(descriptor))
            if isinstance(document, Manifest):
                self._take(document)
                return _Found(digest=descriptor.digest, names=(entry.name,) if entry.name else ())
            descriptor = platforms.choose(str(self.source), document, self.how.platform).descriptor
        raise self._malformed(f"its indexes are nested more than {_MAX_DEPTH} deep")

    def _entry(self, index: Index) -> Entry:
        entries = choose_entries(self.source, index)
        if len(entries) == 1:
            return entries[0]
        return platforms.choose(
            str(self.source),
            Index(media_type=index.media_type, entries=entries),
            self.how.platform,
        )

    def _document(self, descriptor: Descriptor) -> bytes:
        """A manifest or index, verified and stored."""
        if descriptor.size > MAX_MANIFEST_BYTES:
            raise ImageTooLarge(
                str(self.source), "The manifest", descriptor.size, MAX_MANIFEST_BYTES
            )
        data = read(self.box, blob_path(descriptor.digest), MAX_MANIFEST_BYTES)
        if data is None or len(data) != descriptor.size:
            raise self._malformed(f"{descriptor.digest} is missing or has another size")
        if digest_of(data, descriptor.digest) != descriptor.digest:
            raise DigestMismatch(
                f"A document of {self.source}",
                descriptor.digest,
                digest_of(data, descriptor.digest),
            )
        if descriptor.media_type not in INDEX_TYPES:
            self.store.blobs.add(data, descriptor.digest)
        return data

    def _take(self, manifest: Manifest) -> None:
        """The blobs of a manifest, configuration first: what does not fit this machine is not copied."""
        blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
        self._check_total(sum(blob.size for blob in blobs.values()))
        for blob in blobs.values():
            if self.box.size(blob_path(blob.digest)) != blob.size:
                raise self._malformed(f"{blob.digest} is missing or has another size")
            self.how.progress(blob.digest, 0, blob.size)
            self.store.blobs.add_stream(self.box.chunks(blob_path(blob.digest)), blob.digest)
            self.how.progress(blob.digest, blob.size, blob.size)
            if blob is manifest.config:
                data = self.store.blobs.read(blob.digest, MAX_CONFIG_BYTES)
                self._check_platform(data, manifest)

    def _from_listing(self, data: bytes) -> _Found:
        """The older form: no digests but the configuration's, which has those of the plain layers."""
        item, names = self._listed(data)
        config_path = item.get("Config")
        layer_paths = item.get("Layers") or []
        if not isinstance(config_path, str) or not isinstance(layer_paths, list):
            raise self._malformed("its manifest.json lacks something it should have")
        if len(layer_paths) > MAX_LAYERS or not all(isinstance(p, str) for p in layer_paths):
            raise self._malformed("its manifest.json has layers that cannot be")
        config = read(self.box, config_path, MAX_CONFIG_BYTES)
        if config is None:
            raise self._malformed(f"{config_path[:120]!r} is missing or too large")
        self._check_total(sum(self.box.size(path) or 0 for path in layer_paths))
        diff_ids = self._diff_ids(config)
        if len(diff_ids) != len(layer_paths):
            raise self._malformed("its manifest.json and its configuration count other layers")
        layers = [
            self._layer(path, diff_id) for path, diff_id in zip(layer_paths, diff_ids, strict=True)
        ]
        config_digest = self.store.blobs.add(config)
        document = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": OCI_CONFIG, "digest": config_digest, "size": len(config)},
            "layers": layers,
        }
        manifest = json.dumps(document, separators=(",", ":")).encode()
        parsed = parse_document(str(self.source), manifest)
        assert isinstance(parsed, Manifest)  # noqa: S101 - made one line above
        self._check_platform(config, parsed)
        return _Found(digest=self.store.blobs.add(manifest), names=names)

    def _listed(self, data: bytes) -> tuple[Mapping[str, object], tuple[str, ...]]:
        try:
            listing = json.loads(data)
        except (ValueError, RecursionError):
            listing = None
        if not isinstance(listing, list) or not all(isinstance(item, dict) for item in listing):
            raise self._malformed("its manifest.json is not a list of images")
        wanted = self.source.tag
        found = []
        for item in listing:
            tags = item.get("RepoTags") or []
            names = tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()
            if not wanted or any(_is_called(name, wanted) for name in names):
                found.append((item, names))
        if not found:
            raise ImageNotFound(wanted or "it", str(self.source.path))
        if len(found) > 1:
            raise _ambiguous(self.source, [name for _, names in found for name in names])
        return found[0]

    def _diff_ids(self, config: bytes) -> tuple[str, ...]:
        try:
            document = json.loads(config)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._malformed("its configuration is not JSON")
        return configuration_layers(str(self.source), document)

    def _layer(self, path: str, diff_id: str) -> dict[str, object]:
        size = self.box.size(path)
        if size is None:
            raise self._malformed(f"{path[:120]!r} is missing")
        self.how.progress(diff_id, 0, size)
        digest, head = self._hashed(path, diff_id)
        if compression_of_head(head) == "none" and digest != diff_id:
            raise DigestMismatch(f"A layer of {self.source}", diff_id, digest)
        self.store.blobs.add_stream(self.box.chunks(path), digest)
        self.how.progress(diff_id, size, size)
        kind = {"none": "", "gzip": "+gzip", "zstd": "+zstd"}[compression_of_head(head)]
        return {"mediaType": f"{OCI_LAYER}{kind}", "digest": digest, "size": size}

    def _hashed(self, path: str, like: str) -> tuple[str, bytes]:
        """Read once for the digest, as nothing tells it before; the first bytes tell the compression."""
        state, head = hasher(like), b""
        for chunk in self.box.chunks(path):
            head = head or chunk[:4]
            state.update(chunk)
        return f"{like.partition(':')[0]}:{state.hexdigest()}", head

    def _check_platform(self, config: bytes, manifest: Manifest) -> None:
        found = parse_configuration(str(self.source), config, manifest).config
        platform = Platform(os=found.os, architecture=found.architecture, variant=found.variant)
        platforms.check(str(self.source), platform, self.how.platform)

    def _check_total(self, total: int) -> None:
        limit = self.how.settings.limit_bytes
        if total > limit:
            raise ImageTooLarge(str(self.source), "All", total, limit)

    def _names(self, told: tuple[str, ...]) -> tuple[RegistryReference, ...]:
        """What the file calls it where that is a name; else the file's own name, as of this host."""
        found = []
        for text in told:
            try:
                if "/" in text or ":" in text:
                    found.append(parse_reference(text))
            except BadReference:
                continue
        if found:
            return tuple(found)
        return (_name_for(self.source.path, told[0] if told else self.source.tag),)

    def _malformed(self, why: str) -> ImageMalformed:
        return ImageMalformed(str(self.source), why)


def choose_entries(source: LocalReference, index: Index) -> tuple[Entry, ...]:
    """The image meant. One image for several platforms may lie side by side under one name."""
    wanted = source.tag
    entries = [entry for entry in index.entries if not wanted or _is_called(entry.name, wanted)]
    if not entries:
        offered = ", ".join(sorted({entry.name for entry in index.entries if entry.name}))
        raise ImageNotFound(wanted or "it", str(source.path), hint=f"It holds: {offered}")
    if len({entry.name for entry in entries}) > 1:
        raise _ambiguous(source, [entry.name for entry in entries])
    return tuple(entries)


def _ambiguous(source: LocalReference, names: list[str]) -> BadReference:
    listed = ", ".join(sorted({name for name in names if name})) or "none has a name"
    return BadReference(str(source), f"there are several images in it ({listed[:200]})")


def blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _is_called(name: str, wanted: str) -> bool:
    """As written, or as it means: `python:3` is docker.io/library/python:3; a bare tag is the name's end."""
    if name == wanted:
        return True
    try:
        full = parse_reference(name)
        return str(full) == str(parse_reference(wanted)) or full.tag == wanted
    except BadReference:
        return False


def _name_for(path: Path, tag: str) -> RegistryReference:
    stem = path.name.split(".")[0].lower()
    name = _UNFIT.sub("-", stem).strip("-")[:100].strip("-") or "image"
    try:
        return parse_reference(f"localhost/{name}:{tag or 'latest'}")
    except BadReference:
        return parse_reference(f"localhost/{name}")
