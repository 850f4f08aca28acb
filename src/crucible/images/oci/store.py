"""The images on this machine as they were sent: names, and the blobs they share.

Whoever reads or writes images holds the store open; space is freed only while nobody does. Every step that a killed
process leaves behind is harmless: a name is written after all of its blobs, and removed before any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import DigestMismatch, ImageMalformed
from crucible.images.oci.blobs import BlobMissing, Blobs, SizeWrong
from crucible.images.oci.documents import (
    MAX_CONFIG_BYTES,
    MAX_MANIFEST_BYTES,
    Index,
    Manifest,
    parse_configuration,
    parse_document,
)
from crucible.images.oci.files import locked
from crucible.images.oci.model import Compression, Layer, PulledImage
from crucible.images.oci.tags import Tag, Tags

_GZIP = b"\x1f\x8b"
_ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + number, 0x2A, 0x4D, 0x18)) for number in range(16)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A name, what it means, and the digests and sizes of all blobs that it needs."""

    tag: Tag
    image: PulledImage
    blobs: tuple[tuple[str, int], ...]


class Store:
    def __init__(self, home: Path) -> None:
        self.directory = home / "images" / "oci"
        self.blobs = Blobs(self.directory / "blobs")
        self.tags = Tags(self.directory / "tags")

    @contextmanager
    def opened(self) -> Iterator[None]:
        """While it lasts, no blob vanishes. Do not free space inside: it would wait for itself."""
        with locked(self.directory / "lock", is_shared=True):
            yield

    def find(self, reference: str) -> PulledImage | None:
        """The image of that name, whole: small blobs by their digest, layers by their size. None otherwise."""
        tag = self.tags.find(reference)
        if tag is None:
            return None
        try:
            image = self.load(reference, tag.digest)
        except (BlobMissing, ImageMalformed):
            return None
        self.tags.touch(reference)
        return image

    def load(self, reference: str, digest: str) -> PulledImage:
        """An image by its manifest's digest. Raises BlobMissing when anything of it is not here."""
        manifest = self.manifest(reference, digest)
        data = self.blobs.read(manifest.config.digest, MAX_CONFIG_BYTES)
        configuration = parse_configuration(reference, data, manifest)
        layers = []
        for layer, diff_id in zip(manifest.layers, configuration.diff_ids, strict=True):
            try:
                if not self.blobs.has(layer.digest, layer.size):
                    raise BlobMissing(layer.digest)
            except SizeWrong as error:
                raise ImageMalformed(reference, str(error)) from None
            path = self.blobs.path(layer.digest)
            layers.append(
                Layer(
                    digest=layer.digest,
                    diff_id=diff_id,
                    media_type=layer.media_type,
                    size=layer.size,
                    path=path,
                    compression=compression_of(path),
                )
            )
        return PulledImage(
            reference=reference,
            digest=digest,
            config_digest=manifest.config.digest,
            config=configuration.config,
            layers=tuple(layers),
        )

    def manifest(self, reference: str, digest: str) -> Manifest:
        document = parse_document(reference, self.blobs.read(digest, MAX_MANIFEST_BYTES))
        if isinstance(document, Index):
            raise ImageMalformed(reference, f"{digest} is an index, not a manifest")
        return document

    def stored(self) -> tuple[Stored, ...]:
        """Every image that is whole, by name."""
        found = []
        for tag in self.tags.all():
            try:
                image = self.load(tag.reference, tag.digest)
                found.append(Stored(tag=tag, image=image, blobs=self.needs(tag)))
            except (BlobMissing, ImageMalformed):
                continue
        return tuple(found)

    def needs(self, tag: Tag) -> tuple[tuple[str, int], ...]:
        """Digest and size of every blob behind a name, as far as it can be told."""
        sizes = {digest: self._size(digest) for digest in (tag.digest, tag.source_digest)}
        try:
            manifest = self.manifest(tag.reference, tag.digest)
        except (BlobMissing, ImageMalformed):
            return tuple(sizes.items())
        for blob in (manifest.config, *manifest.layers):
            sizes[blob.digest] = self._size(blob.digest)
        return tuple(sizes.items())

    def verify(self, image: PulledImage) -> None:
        """Reads every byte of it again. A damaged blob is removed, so that a pull mends it."""
        wanted = (image.digest, image.config_digest, *(layer.digest for layer in image.layers))
        for digest in dict.fromkeys(wanted):
            if not self.blobs.verify(digest):
                self.blobs.path(digest).unlink(missing_ok=True)
                raise DigestMismatch(f"A blob of `{image.reference}`", digest, "other bytes")

    def _size(self, digest: str) -> int:
        try:
            return self.blobs.path(digest).stat().st_size
        except FileNotFoundError:
            return 0


def compression_of(path: Path) -> Compression:
    """By the first bytes: media types are often wrong about this, and a tar can begin with neither."""
    with path.open("rb") as stream:
        return compression_of_head(stream.read(4))


def compression_of_head(head: bytes) -> Compression:
    """By the first four bytes, or all of them where there are fewer."""
    if head.startswith(_GZIP):
        return Compression.GZIP
    return Compression.ZSTD if head in _ZSTD else Compression.NONE
