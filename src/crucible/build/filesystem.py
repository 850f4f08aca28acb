"""The files of an image as its layers make them: for what a COPY takes from one, and for where it puts something."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence

from crucible.build.items import Item
from crucible.errors import BuildFileInvalid, ImageUnsafe
from crucible.images.layers.content import BLOCK, Content
from crucible.images.layers.growing import GrowingRoot
from crucible.images.layers.headers import Kind, Parts
from crucible.images.layers.limits import DEFAULT
from crucible.images.layers.tree import Directory, Node
from crucible.images.oci.model import Layer

_MOST_ACCOUNTS_BYTES = 1 << 20
_LARGEST_ID = (1 << 32) - 2


class ImageFiles:
    """A `Source` of an image; links in it are followed inside of it. Good until the root that it sees grows again."""

    def __init__(self, layers: Sequence[Layer], growing: GrowingRoot) -> None:
        self._tree = growing.grow(layers)
        self._descriptor = growing.descriptor

    def names(self, parts: Parts) -> list[bytes]:
        _, node = self.resolve(parts)
        return sorted(node.children) if isinstance(node, Directory) else []

    def kind(self, parts: Parts) -> Kind | None:
        _, node = self.resolve(parts)
        return None if node is None else node.kind

    def items(self, parts: Parts) -> Iterator[Item]:
        _, node = self.resolve(parts)
        if node is not None:
            yield from self._walk(node, ())

    def resolve(self, parts: Parts) -> tuple[Parts, Node | None]:
        """Where a path leads, links followed, and what is there. Of what is not there the rest is taken as written."""
        here: Node = self._tree.root
        path: list[tuple[bytes, Node]] = []
        waiting = deque(parts)
        hops = 0
        while waiting:
            name = waiting.popleft()
            if name in (b"", b"."):
                continue
            if name == b"..":
                if path:
                    path.pop()
                here = path[-1][1] if path else self._tree.root
                continue
            child = here.children.get(name) if isinstance(here, Directory) else None
            if child is None:
                rest = [part for part in waiting if part not in (b"", b".", b"..")]
                return (*(each for each, _ in path), name, *rest), None
            if child.kind is Kind.SYMLINK:
                hops += 1
                if hops > DEFAULT.symlink_hops:
                    raise ImageUnsafe("the image", "its symbolic links lead in a circle")
                waiting.extendleft(reversed(child.target.split(b"/")))
                if child.target.startswith(b"/"):
                    here, path = self._tree.root, []
                continue
            path.append((name, child))
            here = child
        return tuple(each for each, _ in path), here

    def owner(self, text: str) -> tuple[int, int]:
        """The numbers of `user`, `user:group`, or either as a number. A user alone has a group of the same number."""
        user, _, group = text.partition(":")
        uid = self._id(user, (b"etc", b"passwd"))
        return uid, self._id(group, (b"etc", b"group")) if group else uid

    def _id(self, name: str, file: Parts) -> int:
        if name.isascii() and name.isdecimal() and len(name) < 11 and int(name) <= _LARGEST_ID:
            return int(name)
        _, node = self.resolve(file)
        content = node.content if node is not None else None
        if content is not None and content.size <= _MOST_ACCOUNTS_BYTES:
            for line in b"".join(self._read(content)).split(b"\n"):
                fields = line.split(b":")
                if len(fields) > 2 and fields[0] == name.encode() and fields[2].isdigit():
                    return min(int(fields[2][:10]), _LARGEST_ID)
        path = b"/".join(file).decode()
        raise BuildFileInvalid("the build", 0, f"the image has no {name[:80]!r} in /{path}")

    def _walk(self, node: Node, parts: Parts) -> Iterator[Item]:
        content = node.content
        yield Item(
            parts=parts,
            kind=node.kind,
            mode=node.mode,
            uid=node.uid,
            gid=node.gid,
            mtime_s=node.mtime_s,
            size=content.size if content is not None else 0,
            target=node.target,
            attributes=node.attributes,
            read=tuple if content is None else lambda: self._read(content),
        )
        if isinstance(node, Directory):
            for name, child in sorted(node.children.items()):
                yield from self._walk(child, (*parts, name))

    def _read(self, content: Content) -> Iterator[bytes]:
        at = content.start
        left = content.size
        number = 0
        while left:
            count = min(BLOCK, left)
            if number in content.holes:
                yield bytes(count)
            else:
                yield os.pread(self._descriptor, count, at)
                at += count
            left -= count
            number += 1
