"""`push` of what lies in an OCI layout or its tar, for all platforms at once: as it is, without taking it in here.

Its blobs go through the store, which verifies them; no name leads to them, so they go again with the next freeing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crucible.errors import DigestMismatch, ImageMalformed, ImageTooLarge, PathRefused
from crucible.images.oci.boxes import Box, open_box, read
from crucible.images.oci.digests import digest_of
from crucible.images.oci.documents import (
    MAX_MANIFEST_BYTES,
    OCI_INDEX,
    Entry,
    Index,
    parse_any_document,
)
from crucible.images.oci.importing import LocalReference, blob_path, choose_entries
from crucible.images.oci.model import Descriptor
from crucible.images.oci.push import Pushing, uploading
from crucible.images.oci.reference import RegistryReference
from crucible.images.oci.store import Store

_MAX_DEPTH = 3
_MOST_DOCUMENTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """A manifest or index, and the blobs that it names; what it names of documents goes before it."""

    digest: str
    data: bytes
    media_type: str
    blobs: tuple[Descriptor, ...] = ()


def push_file(home: Path, source: LocalReference, target: RegistryReference, how: Pushing) -> str:
    """Puts what `source` names there under the target's tag, and all it consists of; gives its digest."""
    if not source.path.exists():
        raise PathRefused(f"{source.path} does not exist")
    store = Store(home)
    with store.opened():
        with open_box(source.path, store.directory, how.settings.limit_bytes) as box:
            gathering = _Gathering(store=store, box=box, source=source, how=how)
            documents = gathering.run()
        with uploading(store, target, how) as upload:
            for document in documents[:-1]:
                upload.send_all(document.blobs)
                upload.put_manifest(document.data, document.media_type, document.digest)
            last = documents[-1]
            upload.send_all(last.blobs)
            how.report("image", f"writing the manifest of {target.familiar}")
            upload.put_manifest(last.data, last.media_type, target.tag)
    return last.digest


@dataclass(slots=True, kw_only=True)
class _Gathering:
    store: Store
    box: Box
    source: LocalReference
    how: Pushing
    seen: set[str] = field(default_factory=set)
    total: int = 0

    def run(self) -> list[_Document]:
        """All documents, what others name first; the one that gets the tag is the last."""
        data = read(self.box, "index.json", MAX_MANIFEST_BYTES)
        if data is None or self.box.size("oci-layout") is None:
            raise PathRefused(
                f"{self.source.path} holds no OCI layout",
                hint="Take it in with `crucible image pull` and push it under its name",
            )
        index = parse_any_document(str(self.source), data)
        if not isinstance(index, Index):
            raise self._malformed("its index.json is no index")
        entries = choose_entries(self.source, index)
        found = [each for entry in entries for each in self._gather(entry.descriptor, 0)]
        return found if len(entries) == 1 else [*found, _joined(data, entries)]

    def _gather(self, descriptor: Descriptor, depth: int) -> Iterator[_Document]:
        if descriptor.digest in self.seen:
            return
        if depth == _MAX_DEPTH or len(self.seen) == _MOST_DOCUMENTS:
            raise self._malformed("its indexes are nested too deeply, or hold too much")
        self.seen.add(descriptor.digest)
        data = self._read(descriptor)
        document = parse_any_document(str(self.source), data)
        if isinstance(document, Index):
            for entry in document.entries:
                yield from self._gather(entry.descriptor, depth + 1)
            yield _Document(digest=descriptor.digest, data=data, media_type=document.media_type)
            return
        blobs = (document.config, *document.layers)
        for blob in blobs:
            self._take(blob)
        yield _Document(
            digest=descriptor.digest, data=data, media_type=document.media_type, blobs=blobs
        )

    def _read(self, descriptor: Descriptor) -> bytes:
        data = read(self.box, blob_path(descriptor.digest), MAX_MANIFEST_BYTES)
        if data is None or len(data) != descriptor.size:
            raise self._missing(descriptor.digest)
        found = digest_of(data, descriptor.digest)
        if found != descriptor.digest:
            raise DigestMismatch(f"A document of {self.source}", descriptor.digest, found)
        return data

    def _take(self, blob: Descriptor) -> None:
        if blob.digest in self.seen:
            return
        self.seen.add(blob.digest)
        self.total += blob.size
        limit = self.how.settings.limit_bytes
        if self.total > limit:
            raise ImageTooLarge(str(self.source), "All", self.total, limit)
        if self.box.size(blob_path(blob.digest)) != blob.size:
            raise self._missing(blob.digest)
        self.store.blobs.add_stream(self.box.chunks(blob_path(blob.digest)), blob.digest)

    def _missing(self, digest: str) -> ImageMalformed:
        return self._malformed(f"{digest} is missing or has another size")

    def _malformed(self, why: str) -> ImageMalformed:
        return ImageMalformed(str(self.source), why)


def _joined(data: bytes, entries: tuple[Entry, ...]) -> _Document:
    """Platforms that lie side by side under one name, as the index that they are elsewhere."""
    wanted = {entry.descriptor.digest for entry in entries}
    listed = [dict(line) for line in json.loads(data)["manifests"] if line["digest"] in wanted]
    for line in listed:
        line.pop("annotations", None)  # they say what it is called in its file
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed}
    made = json.dumps(document, separators=(",", ":")).encode()
    return _Document(digest=digest_of(made), data=made, media_type=OCI_INDEX)
