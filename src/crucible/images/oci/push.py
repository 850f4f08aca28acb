"""`push`: an image from the store into a registry. Blobs that are there already are not sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from crucible.errors import ImageError, ImageUnsupported, RegistryBroken, RegistryDenied
from crucible.images.oci.addresses import Url
from crucible.images.oci.digests import short
from crucible.images.oci.documents import MAX_MANIFEST_BYTES
from crucible.images.oci.download import Progress
from crucible.images.oci.model import Descriptor, PulledImage
from crucible.images.oci.places import Connected, Place, connect
from crucible.images.oci.reference import RegistryReference, parse_reference
from crucible.images.oci.registry import Repository
from crucible.images.oci.server import Ask, Pause
from crucible.images.oci.settings import RegistrySettings, load_settings
from crucible.images.oci.store import Store
from crucible.images.oci.timed_socket import FilePart
from crucible.images.oci.transport import Response
from crucible.images.report import Report, silent

PARALLEL = 3
CHUNK_BYTES = 32 << 20
_ATTEMPTS = 3
_OCTETS = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    settings: RegistrySettings = field(default_factory=load_settings)
    report: Report = silent
    progress: Progress = lambda digest, sent, size: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    pause: Pause | None = None
    chunk_bytes: int = CHUNK_BYTES


def push(store: Store, image: PulledImage, target: RegistryReference, how: Pushing) -> str:
    """Puts the image there under the target's tag; gives its digest. Hold the store open."""
    with uploading(store, target, how) as upload:
        store.verify(image)
        manifest = store.manifest(image.reference, image.digest)
        upload.send_all((manifest.config, *manifest.layers))
        how.report("image", f"writing the manifest of {target.familiar}")
        data = store.blobs.read(image.digest, MAX_MANIFEST_BYTES)
        upload.put_manifest(data, manifest.media_type, target.tag)
    return image.digest


@contextmanager
def uploading(store: Store, target: RegistryReference, how: Pushing) -> Iterator[Upload]:
    """A way to the target's repository."""
    if target.digest or not target.tag:
        raise ImageUnsupported(str(target), "an image is pushed under a tag, not under a digest")
    place = Place(host=target.registry, repository=target.repository)
    with connect(place, target, how.settings, how.environment, how.pause) as connected:
        yield Upload(store=store, connected=connected, target=target, how=how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Sends blobs of the store, and the documents that name them, into one repository."""

    store: Store
    connected: Connected
    target: RegistryReference
    how: Pushing

    def send_all(self, blobs: tuple[Descriptor, ...]) -> None:
        unique = {blob.digest: blob for blob in blobs}.values()
        stopped = threading.Event()
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            futures = [pool.submit(self._send, blob, stopped) for blob in unique]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stopped.set()
                self.connected.end()
                for future in futures:
                    future.cancel()
                raise

    def put_manifest(self, data: bytes, media_type: str, name: str) -> None:
        """`name` is a tag or the document's digest. What it names must be there already."""
        path = f"/v2/{self.target.repository}/manifests/{name}"
        with self._ask("PUT", path, headers={"Content-Type": media_type}, body=data) as response:
            if response.status not in (200, 201, 202):
                raise self._refused(response, "the manifest")

    def _send(self, blob: Descriptor, stopped: threading.Event) -> None:
        """A broken upload is begun anew: what the registry kept of it is the registry's to forget."""
        for left in range(_ATTEMPTS - 1, -1, -1):
            if stopped.is_set():
                return
            try:
                if not self._repository.has_blob(blob.digest, scope=self._scope()):
                    self._upload(blob)
                break
            except ImageError as error:
                if not left:
                    raise
                self.how.report("image", f"{short(blob.digest)}: {error.message}; once more")
        self.how.progress(blob.digest, blob.size, blob.size)

    def _upload(self, blob: Descriptor) -> None:
        """Asks for the blob to be taken over from a repository we know to have it; else sends it."""
        start, scope = f"/v2/{self.target.repository}/blobs/uploads/", self._scope()
        origin = self._known_in(blob.digest)
        if origin:
            start += "?" + urlencode({"mount": blob.digest, "from": origin})
            scope += f" repository:{origin}:pull"
        with self._ask("POST", start, scope=scope) as response:
            if response.status == 201 and origin:
                self.how.report("image", f"{short(blob.digest)} was there, in {origin}")
                return
            location = self._location(response)
        sent = 0
        while blob.size - sent > self.how.chunk_bytes:
            location = self._send_chunk(blob, sent, location)
            sent += self.how.chunk_bytes
        joint = "&" if "?" in location.target else "?"
        last = replace(location, target=f"{location.target}{joint}digest={blob.digest}")
        part, count = self._part(blob, sent), self._counter(blob, sent)
        with self._ask("PUT", last, headers=_OCTETS, body=part, on_sent=count) as response:
            if response.status not in (201, 202, 204):
                raise self._refused(response, blob.digest)

    def _send_chunk(self, blob: Descriptor, offset: int, location: Url) -> Url:
        end = offset + self.how.chunk_bytes - 1
        headers = {**_OCTETS, "Content-Range": f"{offset}-{end}"}
        part, count = self._part(blob, offset), self._counter(blob, offset)
        with self._ask("PATCH", location, headers=headers, body=part, on_sent=count) as response:
            return self._location(response)

    def _counter(self, blob: Descriptor, offset: int) -> Callable[[int], None]:
        """Progress within a part. A part that is sent again counts on, but never past the blob's end."""
        sent = offset

        def count(size: int) -> None:
            nonlocal sent
            sent = min(sent + size, blob.size)
            self.how.progress(blob.digest, sent, blob.size)

        return count

    def _part(self, blob: Descriptor, offset: int) -> FilePart:
        length = min(self.how.chunk_bytes, blob.size - offset)
        return FilePart(path=self.store.blobs.path(blob.digest), offset=offset, length=length)

    def _location(self, response: Response) -> Url:
        if response.status != 202:
            raise self._refused(response, "an upload")
        return self._repository.server.located(response)

    def _known_in(self, digest: str) -> str:
        """Another repository of the same registry that an image with this blob came from."""
        for tag in self.store.tags.all():
            reference = parse_reference(tag.reference)
            same_registry = reference.registry == self.target.registry
            is_other = same_registry and reference.repository != self.target.repository
            if is_other and digest in dict(self.store.needs(tag)):
                return reference.repository
        return ""

    def _ask(
        self,
        method: str,
        path: str | Url,
        *,
        scope: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | FilePart | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        return self._repository.server.ask(
            Ask(
                method=method,
                path=path,
                scope=scope or self._scope(),
                headers=headers or {},
                body=body,
                on_sent=on_sent,
            )
        )

    def _scope(self) -> str:
        return f"repository:{self.target.repository}:pull,push"

    def _refused(self, response: Response, what: str) -> RegistryBroken | RegistryDenied:
        name = self._repository.server.name
        if response.status in (401, 403, 405):
            return RegistryDenied(name, f"writing to {self.target.repository}")
        return RegistryBroken(name, f"status {response.status} for {what}")

    @property
    def _repository(self) -> Repository:
        return self.connected.repository
