"""Which kernel modules a guest needs, and the order in which they can be loaded one by one.

The guest has no modprobe: it loads a list from top to bottom. What a module depends on is read from the module itself.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from crucible.errors import BuildFailed

# The disks, the channel and the root filesystem. Built into some kernels, modules of others.
REQUIRED = ("virtio_mmio", "virtio_blk", "virtio_console", "squashfs", "overlay", "ext4")
# Taken where the kernel has them: another image format, and the transport of arm's `virt` machine.
OPTIONAL = {"x86_64": ("erofs",), "aarch64": ("erofs", "virtio_pci")}

_DEPENDS = re.compile(rb"(?:\A|\0)depends=([A-Za-z0-9_,-]*)\0")
_LARGEST = 256 << 20
_SUFFIXES = (".ko", ".ko.xz", ".ko.zst")


def module_name(file: str) -> str:
    """`virtio-mmio.ko.xz` → `virtio_mmio`: the kernel does not tell `-` and `_` apart."""
    return file.split(".ko", 1)[0].replace("-", "_")


def load_order(wanted: Iterable[str], depends: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """`wanted` and all they depend on, each after what it needs. Raises BuildFailed on a circle."""
    order: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in path:
            circle = " → ".join((*path[path.index(name) :], name))
            raise BuildFailed(f"Kernel modules depend on each other in a circle: {circle}")
        if name not in depends:
            needed = f", which {path[-1]!r} needs" if path else ""
            raise BuildFailed(f"The kernel has no module {name!r}{needed}")
        path.append(name)
        for needed_name in depends[name]:
            visit(needed_name)
        path.pop()
        order.append(name)

    for name in wanted:
        visit(name)
    return tuple(order)


def depends_of(module: bytes) -> tuple[str, ...]:
    """The names in the `depends` field of a module's own description."""
    found = _DEPENDS.search(module)
    if found is None:
        raise BuildFailed("A kernel module does not say what it depends on")
    names = found.group(1).decode("ascii")
    return tuple(module_name(name) for name in names.split(",") if name)


def collect(tree: Path, processor: str) -> dict[str, bytes]:
    """The modules the guest needs from an unpacked `lib/modules/<version>`, in load order."""
    files = {
        module_name(path.name): path
        for path in tree.rglob("*.ko*")
        if path.name.endswith(_SUFFIXES)
    }
    built_in = _built_in(tree)
    absent = [name for name in REQUIRED if name not in files and name not in built_in]
    if absent:
        raise BuildFailed(f"The kernel package has no module {', '.join(absent)}")
    useful = (*REQUIRED, *OPTIONAL.get(processor, ()))
    wanted = [name for name in useful if name in files and name not in built_in]
    contents = _read_closure(wanted, files, built_in)
    depends = {
        name: [needed for needed in depends_of(data) if needed not in built_in]
        for name, data in contents.items()
    }
    return {name: contents[name] for name in load_order(wanted, depends)}


def _read_closure(
    wanted: Iterable[str], files: Mapping[str, Path], built_in: frozenset[str]
) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    queue = list(wanted)
    while queue:
        name = queue.pop()
        if name in contents or name not in files:
            continue
        contents[name] = _plain(files[name])
        queue.extend(needed for needed in depends_of(contents[name]) if needed not in built_in)
    return contents


def _built_in(tree: Path) -> frozenset[str]:
    try:
        lines = (tree / "modules.builtin").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return frozenset()
    return frozenset(module_name(line.rsplit("/", 1)[-1]) for line in lines)


def _plain(path: Path) -> bytes:
    if path.name.endswith(".xz"):
        return lzma.decompress(path.read_bytes())
    if path.name.endswith(".zst"):
        from crucible.images.zstandard import decompressed

        try:
            return decompressed(path.read_bytes(), _LARGEST)
        except ValueError as error:
            raise BuildFailed(
                f"The kernel module {path.name} cannot be unpacked: {error}"
            ) from None
    return path.read_bytes()
