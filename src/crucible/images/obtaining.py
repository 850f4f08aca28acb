"""An image's name → an image that a sandbox can start from: fetched or taken in, its root made, space freed after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crucible.errors import BadReference
from crucible.images import pulled
from crucible.images.catalog import Image
from crucible.images.composing import remove_unused_compositions
from crucible.images.layers.making import make_root, remove_unused_roots
from crucible.images.oci import eviction
from crucible.images.oci.eviction import Freed, InUse
from crucible.images.oci.importing import imported
from crucible.images.oci.model import PulledImage
from crucible.images.oci.pull import Pulling
from crucible.images.oci.pull import pulled as fetched
from crucible.images.oci.reference import RegistryReference, parse_source
from crucible.images.oci.store import Store
from crucible.images.oci.tags import Tag


def obtain(text: str, how: Pulling, *, name: RegistryReference | None = None) -> Image:
    """`text` is a name in a registry, or says where it lies on disk; then `name` is what to call it.

    Its name is written last: what is refused on the way leaves an older image of that name as it was.
    """
    made: list[Image] = []

    def make(image: PulledImage) -> None:
        made[:] = [make_root(image, how.home, how.report)]

    whole = replace(how, ready=make)
    source = parse_source(text)
    if isinstance(source, RegistryReference):
        if name is not None:
            raise BadReference(text, "only an image from a file can be given a name")
        with fetched(source, whole):
            pass
    else:
        with imported(source, whole, name):
            pass
    evict(how.home, how.settings.limit_bytes, how.in_use, keep=made[0].name)
    return made[0]


def evict(home: Path, limit_bytes: int, in_use: InUse, *, keep: str = "") -> Freed:
    """Brings blobs and roots together under the limit, unless somebody is at the store just now."""
    store = Store(home)

    def weigh(tag: Tag) -> dict[str, int]:
        return _root_size(home, tag.digest)

    freed = eviction.evict(store, limit_bytes=limit_bytes, in_use=in_use, keep=keep, weigh=weigh)
    return _with_roots(home, freed, in_use, waits=False)


def remove(home: Path, reference: str, in_use: InUse) -> Freed:
    """Takes a name away, and whatever nothing else needs."""
    freed = eviction.remove(Store(home), reference)
    return _with_roots(home, freed, in_use, waits=False)


def prune(home: Path, in_use: InUse, *, everything: bool) -> Freed:
    """Unfinished downloads and what no name needs; `everything`: also all images not in use."""
    freed = eviction.prune(Store(home), in_use=in_use, everything=everything)
    return _with_roots(home, freed, in_use, waits=True)


def _with_roots(home: Path, freed: Freed, in_use: InUse, *, waits: bool) -> Freed:
    size = remove_unused_roots(home, in_use=in_use(), waits=waits)
    size += remove_unused_compositions(home)
    return replace(freed, size_bytes=freed.size_bytes + size)


def _root_size(home: Path, digest: str) -> dict[str, int]:
    """Under its key, as images of the same layers share it."""
    path = pulled.description_of(home, digest)
    key = pulled.root_of(path)
    root = pulled.find_root(home, key) if key else None
    return {key: root.size_bytes} if root is not None else {}
