"""The root of an image that gets layer upon layer, as in a build: each layer is read once, not once for each root.

What it writes is what `rootfs.write_root` writes of the same layers, byte for byte.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from crucible.images.layers.content import ContentFile
from crucible.images.layers.limits import DEFAULT, Limits
from crucible.images.layers.rootfs import Made, apply_layer, made_of, write_root
from crucible.images.layers.squash import SUPERBLOCK_BYTES, write_filesystem
from crucible.images.layers.tree import Tree
from crucible.images.oci.model import Layer
from crucible.images.report import Report, silent

_CHUNK = 1 << 20
_CANNOT_SHARE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


class GrowingRoot:
    """`write` can take the place of `write_root`. Holds the files' bytes in a file of no name."""

    def __init__(self, scratch: Path, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - closed by `__exit__`
        self._applied: tuple[str, ...] = ()
        self._spent = 0
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(
        self,
        layers: Sequence[Layer],
        target: Path,
        *,
        stage: str = "image",
        report: Report = silent,
    ) -> Made:
        tree = self.grow(layers, stage=stage, report=report)
        contents = (node.content for node in tree.nodes() if node.content is not None)
        if self._contents.is_wasteful(contents):
            return write_root(layers, target, stage=stage, report=report, limits=self._limits)
        self._write(target)
        return made_of(tree)

    def grow(
        self, layers: Sequence[Layer], *, stage: str = "image", report: Report = silent
    ) -> Tree:
        """The files that these layers make, as they are until it grows again; `descriptor` has their bytes."""
        names = tuple(layer.diff_id for layer in layers)
        if self._applied != names[: len(self._applied)]:
            self._begin()
        try:
            for layer in layers[len(self._applied) :]:
                report(stage, f"applying layer {len(self._applied) + 1} of {len(layers)}")
                self._spent += apply_layer(
                    layer, self._tree, self._contents, self._limits, self._spent
                )
                self._applied = (*self._applied, layer.diff_id)
            self._file.flush()
        except BaseException:
            self._begin()
            raise
        return self._tree

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def _begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(bytes(SUPERBLOCK_BYTES))
        self._tree = Tree(self._limits)
        self._contents = ContentFile(self._file, start=SUPERBLOCK_BYTES)
        self._applied, self._spent = (), 0

    def _write(self, target: Path) -> None:
        for node in self._tree.nodes():
            node.number, node.position, node.links = 0, -1, 0
        with target.open("w+b", buffering=_CHUNK) as file:
            _copy(self._file.fileno(), file.fileno(), self._contents.end)
            write_filesystem(self._tree, file, end=self._contents.end)


def _copy(source: int, target: int, count: int) -> None:
    """By the kernel, which may share the blocks; else by hand."""
    at = 0
    while at < count:
        try:
            copied = os.copy_file_range(source, target, count - at, at, at)
        except OSError as error:
            if error.errno not in _CANNOT_SHARE:
                raise
            copied = os.pwrite(target, os.pread(source, min(_CHUNK, count - at), at), at)
        if not copied:
            raise EOFError("the file was cut short while it was copied")
        at += copied
