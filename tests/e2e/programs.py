"""Programs of this host as layers of images: each with the libraries that it is linked to, and nothing else."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.images.layers.packing import digest_of, layer_of

from crucible.images import pulled
from crucible.images.layers.making import make_root
from crucible.images.oci.model import ImageConfig, PulledImage

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


class Tree:
    """A root filesystem that grows by what it is given; paths in it are written without the slash before them."""

    def __init__(self) -> None:
        self._packed = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._packed, mode="w")  # noqa: SIM115 - closed by `tar`
        self._names: set[str] = set()

    def add(self, path: Path, name: str = "", *, without: Sequence[str] = ()) -> None:
        """A file or a directory of this host, in the same place or in another, but for what is so called in it."""
        name = name or str(path).lstrip("/")
        if name in self._names:
            return
        self._names.add(name)

        def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
            info.uid = info.gid = 0
            return None if info.name.rpartition("/")[2] in without else info

        self._tar.add(path.resolve(), name, filter=kept)

    def add_program(self, path: Path, name: str = "") -> None:
        self.add(path, name)
        for library in libraries(path):
            self.add(library)

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), mode
        self._tar.addfile(info, io.BytesIO(content))

    def link(self, name: str, target: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)

    def tar(self) -> bytes:
        self._tar.close()
        return self._packed.getvalue()


def libraries(path: Path) -> list[Path]:
    """All that the loader would map beside a program, the loader itself included."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return [Path(found) for found in _LIBRARY.findall(done.stdout)]


def add_busybox(tree: Tree, path: Path, applets: Iterable[str]) -> None:
    tree.add(path, "bin/busybox")
    for name in applets:
        tree.link(f"bin/{name}", "busybox")


def make_image(
    home: Path, name: str, tree: Tree, variables: Mapping[str, str] | None = None
) -> None:
    """Puts it where a pull would have."""
    blobs = home / "images" / "oci" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    layer = layer_of(blobs, tree.tar())
    environment = {"PATH": "/usr/bin:/bin", **(variables or {})}
    config = ImageConfig(environment=tuple(environment.items()))
    digest = digest_of(repr((config, layer.digest)).encode())
    reference = f"docker.io/library/{name}"
    pulled.tags_of(home).set(reference, digest, digest)
    made = PulledImage(
        reference=reference, digest=digest, config_digest=digest, config=config, layers=(layer,)
    )
    make_root(made, home)
