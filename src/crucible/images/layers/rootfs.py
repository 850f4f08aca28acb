"""Layers in, one squashfs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crucible.images.layers.content import ContentFile
from crucible.images.layers.headers import entries
from crucible.images.layers.limits import DEFAULT, Limits
from crucible.images.layers.reading import open_layer
from crucible.images.layers.squash import SUPERBLOCK_BYTES, write_filesystem
from crucible.images.layers.tree import Tree
from crucible.images.oci.model import Layer
from crucible.images.report import Report, silent

_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`skipped_devices` and `skipped_attributes` are what the image has and its root does not."""

    skipped_devices: int
    skipped_attributes: tuple[str, ...]


def write_root(
    layers: Sequence[Layer],
    target: Path,
    *,
    stage: str = "image",
    report: Report = silent,
    limits: Limits = DEFAULT,
) -> Made:
    """Writes the filesystem that the layers make, lowest first. What it leaves when it fails is of no use."""
    tree = Tree(limits)
    unpacked_bytes = 0
    with target.open("w+b", buffering=_BUFFER) as file:
        file.write(bytes(SUPERBLOCK_BYTES))
        contents = ContentFile(file, start=SUPERBLOCK_BYTES)
        for number, layer in enumerate(layers, 1):
            report(stage, f"applying layer {number} of {len(layers)}")
            unpacked_bytes += apply_layer(layer, tree, contents, limits, unpacked_bytes)
        contents.compact(node.content for node in tree.nodes() if node.content is not None)
        write_filesystem(tree, file, end=contents.end)
    return made_of(tree)


def made_of(tree: Tree) -> Made:
    skipped = tree.skipped
    return Made(
        skipped_devices=skipped.devices,
        skipped_attributes=tuple(
            sorted(name.decode("utf-8", "replace") for name in skipped.attributes)
        ),
    )


def apply_layer(
    layer: Layer, tree: Tree, contents: ContentFile, limits: Limits, spent_bytes: int
) -> int:
    """How many bytes the layer unpacked to."""
    tree.begin_layer(layer.digest)
    with open_layer(layer, limits, spent_bytes=spent_bytes) as stream:
        for entry in entries(stream, layer.digest, limits):
            if tree.wants_content(entry):
                tree.add(entry, contents.store(stream, entry.size))
            else:
                tree.add(entry)
        stream.finish()
        return stream.position
