"""COPY and ADD: files of the context or of another image → a layer. Nothing runs for it, and no sandbox is needed."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from crucible.build.drafts import LayerFile
from crucible.build.filesystem import ImageFiles
from crucible.build.items import Item, Source, digest_of, matches, parts_of
from crucible.errors import PathRefused
from crucible.images.layers.headers import Kind, Parts
from crucible.images.layers.tree import Directory

_HEAD = 512
_MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_XATTR = "SCHILY.xattr."
_TYPES: dict[Kind, bytes] = {
    Kind.FILE: tarfile.REGTYPE,
    Kind.DIRECTORY: tarfile.DIRTYPE,
    Kind.SYMLINK: tarfile.SYMTYPE,
    Kind.LINK: tarfile.LNKTYPE,
    Kind.FIFO: tarfile.FIFOTYPE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A COPY with everything in it resolved. `target` is absolute; `mode` and `owner` go before the files' own."""

    word: Literal["COPY", "ADD"]
    sources: tuple[str, ...]
    target: str
    mode: int | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What the sources name: each with its path there, and all its files."""

    found: tuple[tuple[Parts, tuple[Item, ...]], ...]

    def digest(self) -> str:
        """Of the files and of the names they are copied under."""
        state = hashlib.sha256()
        for parts, items in self.found:
            state.update(f"{parts[-1:]!r} {digest_of(items)}".encode())
        return state.hexdigest()


Placed = dict[Parts, Item]


def gather(order: Order, source: Source) -> Gathered:
    """Raises PathRefused for a source that names nothing, or nothing that may be copied."""
    found = [parts for pattern in order.sources for parts in matches(source, pattern)]
    gathered = tuple((parts, tuple(source.items(parts))) for parts in found)
    if order.word == "ADD":
        for parts, items in gathered:
            _refuse_archive(parts, items[0])
    return Gathered(found=gathered)


def place(order: Order, gathered: Gathered, image: ImageFiles) -> Placed:
    """Decides where everything goes, by what the image has there already: each file by its path in the image."""
    owner = image.owner(order.owner) if order.owner else None
    target, there = image.resolve(parts_of(order.target))
    is_directory = order.target.endswith("/") or isinstance(there, Directory)
    if len(gathered.found) > 1 and not is_directory:
        raise PathRefused(
            f"Several files cannot be copied to {order.target!r}",
            hint="End the target with a slash to make it a directory",
        )
    placed: Placed = {}
    for parts, items in gathered.found:
        for path, item in _placed_one(parts, items, target, is_directory=is_directory):
            if not path or (path == target and isinstance(there, Directory)):
                continue  # a directory that is there stays as it is
            placed[path] = _owned(item, order, owner)
    return placed


def _placed_one(
    parts: Parts, items: tuple[Item, ...], target: Parts, *, is_directory: bool
) -> Iterator[tuple[Parts, Item]]:
    first = items[0]
    if first.kind is not Kind.DIRECTORY:
        yield ((*target, parts[-1]) if is_directory else target), first
        return
    # Of a directory that is named, what it holds is copied, and not what it looks like itself.
    yield target, replace(first, mode=0o755, uid=0, gid=0, attributes=())
    for item in items[1:]:
        yield (*target, *item.parts), item


def _owned(item: Item, order: Order, owner: tuple[int, int] | None) -> Item:
    if owner is not None:
        item = replace(item, uid=owner[0], gid=owner[1])
    if order.mode is not None and item.kind is not Kind.SYMLINK:
        item = replace(item, mode=order.mode)
    return item


def _refuse_archive(parts: Parts, item: Item) -> None:
    """Engines unpack what ADD is given; here that would be a second way for hostile tars."""
    if item.kind is not Kind.FILE:
        return
    head = next(iter(item.read()), b"")[:_HEAD]
    if head.startswith(_MAGIC) or head[257:262] == b"ustar":
        name = b"/".join(parts).decode(errors="backslashreplace")
        raise PathRefused(
            f"ADD of the archive {name[:200]!r} is not supported",
            hint="COPY it and unpack it in a RUN step",
        )


def write_layer(placed: Placed, file: LayerFile, *, epoch_s: int | None) -> None:
    """The same files give the same bytes. `epoch_s` is the latest time that a file may have."""
    for path, item in sorted(placed.items(), key=lambda each: each[0]):
        header = _header(path, item, epoch_s)
        file.write(header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        for data in item.read():
            file.write(data)
        file.write(bytes(-item.size % tarfile.BLOCKSIZE))
    file.write(bytes(2 * tarfile.BLOCKSIZE))


def _header(path: Parts, item: Item, epoch_s: int | None) -> tarfile.TarInfo:
    info = tarfile.TarInfo(b"/".join(path).decode(errors="surrogateescape"))
    info.type = _TYPES[item.kind]
    info.mode, info.uid, info.gid = item.mode, item.uid, item.gid
    info.mtime = item.mtime_s if epoch_s is None else min(item.mtime_s, epoch_s)
    info.size = item.size
    info.linkname = item.target.decode(errors="surrogateescape")
    info.pax_headers = {
        _XATTR + name.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
        for name, value in item.attributes
    }
    return info
