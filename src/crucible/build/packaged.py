"""An image that was made of packages, and so has no layers → the one layer that others are built upon."""

from __future__ import annotations

from crucible.build.copying import write_layer
from crucible.build.drafts import LayerFile
from crucible.build.items import Item
from crucible.errors import ImageDamaged
from crucible.images.catalog import Image
from crucible.images.layers.headers import Kind
from crucible.images.layers.unsquash import NotReadable, Squashed


def read_packaged(image: Image, layer: LayerFile) -> None:
    """All of it but device nodes, which a machine has of its own."""
    try:
        with Squashed(image.root) as root:
            files = {
                entry.parts: Item(
                    parts=entry.parts,
                    kind=entry.kind,
                    mode=entry.mode,
                    uid=entry.uid,
                    gid=entry.gid,
                    mtime_s=entry.mtime_s,
                    size=entry.size,
                    target=entry.target or b"/".join(entry.linked),
                    read=tuple if entry.kind is Kind.LINK else content,
                )
                for entry, content in root.entries()
                if entry.kind is not Kind.DEVICE
            }
            write_layer(files, layer, epoch_s=None)
    except NotReadable as problem:
        raise ImageDamaged(image.name, str(problem)) from None
