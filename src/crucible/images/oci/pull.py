"""`pull`: an image's name → its verified bytes in the store, over the network only where that is needed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from crucible.errors import (
    HostDiskFull,
    ImageError,
    ImageMalformed,
    ImageNotFound,
    ImageTooLarge,
    RegistryBusy,
    RegistryDenied,
    RegistryUnreachable,
)
from crucible.images.oci import platforms
from crucible.images.oci.blobs import BlobMissing
from crucible.images.oci.documents import (
    MAX_CONFIG_BYTES,
    Index,
    Manifest,
    parse_configuration,
)
from crucible.images.oci.download import Downloads, Progress
from crucible.images.oci.eviction import InUse, evict
from crucible.images.oci.model import Platform, PulledImage
from crucible.images.oci.places import Connected, Place, connect, places_for
from crucible.images.oci.reference import RegistryReference
from crucible.images.oci.registry import Fetched, Repository
from crucible.images.oci.server import Pause
from crucible.images.oci.settings import RegistrySettings, load_settings
from crucible.images.oci.store import Store
from crucible.images.oci.tags import Tag
from crucible.images.report import NOTICE, Report, silent

_MAX_DEPTH = 3
_SPARE_BYTES = 64 << 20


class Policy(StrEnum):
    """When to ask the registry. What a digest names cannot change, so that is never asked for twice."""

    ALWAYS = "always"
    MISSING = "missing"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulling:
    """All that a pull needs to know beside the name. `in_use` tells which images must stay.

    `ready` is called with the image before its name is written: what it raises leaves the name as it was.
    """

    home: Path
    policy: Policy = Policy.ALWAYS
    settings: RegistrySettings = field(default_factory=load_settings)
    report: Report = silent
    progress: Progress = lambda digest, here, size: None
    in_use: InUse = frozenset
    ready: Callable[[PulledImage], None] = lambda image: None
    platform: Platform = field(default_factory=platforms.host_platform)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    pause: Pause | None = None


@contextmanager
def pulled(reference: RegistryReference, how: Pulling) -> Iterator[PulledImage]:
    """The image, with its blobs held in the store for the block."""
    store = Store(how.home)
    with store.opened():
        yield _pull(store, reference, how)


def pull(reference: RegistryReference, how: Pulling) -> PulledImage:
    """Like `pulled`, for whoever does not need the blobs at once: space is freed right away."""
    with pulled(reference, how) as image:
        pass
    evict(
        Store(how.home),
        limit_bytes=how.settings.limit_bytes,
        in_use=how.in_use,
        keep=image.reference,
    )
    return image


def _pull(store: Store, reference: RegistryReference, how: Pulling) -> PulledImage:
    here = _find(store, reference)
    if here is not None and (how.policy != Policy.ALWAYS or reference.digest):
        how.ready(here)
        return here
    if how.policy == Policy.NEVER:
        raise ImageNotFound(
            reference.familiar,
            "the store, and no registry may be asked",
            hint=f"Fetch it with `crucible image pull {reference.familiar}`",
        )
    try:
        return _from_places(store, reference, here, how)
    except (RegistryUnreachable, RegistryBusy) as error:
        if here is None:
            raise
        how.report(NOTICE, f"{error.message}; using {reference.familiar} as it is here")
        how.ready(here)
        return here


def _find(store: Store, reference: RegistryReference) -> PulledImage | None:
    """By its name, or under any other name by the digest it asks for."""
    here = store.find(str(reference))
    if here is not None or not reference.digest:
        return here
    for tag in store.tags.all():
        if reference.digest in (tag.digest, tag.source_digest) and store.find(tag.reference):
            store.tags.set(str(reference), tag.digest, tag.source_digest)
            return store.find(str(reference))
    return None


def _from_places(
    store: Store, reference: RegistryReference, here: PulledImage | None, how: Pulling
) -> PulledImage:
    """From the first mirror that has it, else from the registry itself, whose error is then raised."""
    *mirrors, origin = places_for(reference, how.settings)
    for place in mirrors:
        try:
            return _from_place(store, reference, here, place, how)
        except (ImageError, ImageNotFound, RegistryDenied) as error:
            how.report(NOTICE, f"{error.message}; asking the next")
    return _from_place(store, reference, here, origin, how)


def _from_place(
    store: Store,
    reference: RegistryReference,
    here: PulledImage | None,
    place: Place,
    how: Pulling,
) -> PulledImage:
    with connect(place, reference, how.settings, how.environment, how.pause) as connected:
        tag = store.tags.find(str(reference)) if here is not None else None
        if (
            here is not None
            and tag is not None
            and _is_current(connected.repository, reference, tag)
        ):
            how.report("image", f"{reference.familiar} is up to date")
            how.ready(here)
            return here
        how.report("image", f"asking {place.host} for {reference.familiar}")
        return _Fetch(store=store, connected=connected, how=how).run(reference)


def _is_current(repository: Repository, reference: RegistryReference, tag: Tag) -> bool:
    return repository.current_digest(reference.wanted) == tag.source_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    store: Store
    connected: Connected
    how: Pulling

    def run(self, reference: RegistryReference) -> PulledImage:
        name = reference.familiar
        source = self.connected.repository.manifest(reference.wanted)
        self.store.blobs.add(source.data, source.digest)
        chosen, manifest = self._chosen(name, source)
        self._check_size(name, manifest)
        downloads = Downloads(
            repository=self.connected.repository,
            blobs=self.store.blobs,
            patience=self.how.settings.patience,
            pause=self.connected.pause,
            progress=self._progress(manifest),
            stopped=threading.Event(),
        )
        self._check_configuration(name, manifest, downloads)
        self.how.report("image", f"{name}: {len(manifest.layers)} layers")
        downloads.fetch_all(manifest.layers, self.connected.end)
        image = self.store.load(str(reference), chosen.digest)
        self.how.ready(image)
        self.store.tags.set(str(reference), chosen.digest, source.digest)
        return image

    def _chosen(self, name: str, fetched: Fetched) -> tuple[Fetched, Manifest]:
        """Through indexes, which may lie in each other, to the manifest for this machine."""
        for _ in range(_MAX_DEPTH):
            if isinstance(fetched.document, Manifest):
                return fetched, fetched.document
            wanted = platforms.choose(name, fetched.document, self.how.platform).descriptor
            fetched = self.connected.repository.manifest(wanted.digest)
            if len(fetched.data) != wanted.size:
                raise ImageMalformed(
                    name,
                    f"its index gives {wanted.digest} {wanted.size} bytes, not {len(fetched.data)}",
                )
            self.store.blobs.add(fetched.data, fetched.digest)
        if isinstance(fetched.document, Index):
            raise ImageMalformed(name, f"its indexes are nested more than {_MAX_DEPTH} deep")
        return fetched, fetched.document

    def _check_size(self, name: str, manifest: Manifest) -> None:
        """Before anything is fetched: what it says it has must fit the limit and the disk."""
        sizes = {blob.digest: blob.size for blob in (manifest.config, *manifest.layers)}
        total = sum(sizes.values())
        if total > self.how.settings.limit_bytes:
            raise ImageTooLarge(name, "All", total, self.how.settings.limit_bytes)
        missing = sum(
            size for digest, size in sizes.items() if not self.store.blobs.path(digest).exists()
        )
        self.store.directory.mkdir(parents=True, exist_ok=True)
        if missing + _SPARE_BYTES > shutil.disk_usage(self.store.directory).free:
            raise HostDiskFull(str(self.store.directory))

    def _check_configuration(self, name: str, manifest: Manifest, downloads: Downloads) -> None:
        """Before the layers, which are what takes long."""
        downloads.fetch(manifest.config)
        try:
            data = self.store.blobs.read(manifest.config.digest, MAX_CONFIG_BYTES)
        except BlobMissing:  # it was here and damaged, and is gone now
            downloads.fetch(manifest.config)
            data = self.store.blobs.read(manifest.config.digest, MAX_CONFIG_BYTES)
        config = parse_configuration(name, data, manifest).config
        found = Platform(os=config.os, architecture=config.architecture, variant=config.variant)
        platforms.check(name, found, self.how.platform)

    def _progress(self, manifest: Manifest) -> Progress:
        """Only layers are shown."""
        layers = {layer.digest for layer in manifest.layers}

        def progress(digest: str, here: int, size: int) -> None:
            if digest in layers:
                self.how.progress(digest, here, size)

        return progress
