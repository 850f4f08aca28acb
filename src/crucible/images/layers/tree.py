"""The image's files in memory: each layer's entries applied over what the layers below left.

An entry lands where its path leads inside the root: symbolic links of lower layers are followed for its directories,
never for its last name, and nothing leads above the root. A whiteout hides what lower layers have, not its own layer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from crucible.errors import ImageBomb, ImageUnsafe
from crucible.images.layers.content import Content
from crucible.images.layers.headers import Entry, Kind, Parts
from crucible.images.layers.limits import Limits

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
# Of the old union filesystem that whiteouts come from: its own book-keeping, which every engine passes over.
_BOOKKEEPING = b".wh..wh."
# The kernel's own words about an overlay; an image must not speak them to the one it is mounted in.
_RESERVED_ATTRIBUTES = (b"trusted.overlay.", b"user.overlay.")
_KEPT_ATTRIBUTES = (b"user.", b"trusted.", b"security.")


@dataclass(slots=True, kw_only=True)
class Node:
    """One file; a hard link is one node under two names. `number` and `position` are the writer's."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime_s: int
    attributes: tuple[tuple[bytes, bytes], ...] = ()
    target: bytes = b""
    content: Content | None = None
    links: int = 0
    number: int = 0
    position: int = -1


@dataclass(slots=True, kw_only=True)
class Directory(Node):
    """`fresh` are the names that layer `fresh_layer` brought; in `cleared_layer` it lost all older ones."""

    kind: Kind = Kind.DIRECTORY
    depth: int = 0
    children: dict[bytes, Node] = field(default_factory=dict)
    fresh: set[bytes] = field(default_factory=set)
    fresh_layer: int = -1
    cleared_layer: int = -1


@dataclass(slots=True)
class Skipped:
    """What was left out on purpose."""

    devices: int = 0
    attributes: set[bytes] = field(default_factory=set)


class Tree:
    def __init__(self, limits: Limits) -> None:
        self.root = Directory(mode=0o755, uid=0, gid=0, mtime_s=0)
        self.skipped = Skipped()
        self._limits = limits
        self._layer = -1
        self._digest = ""
        self._entries = 0
        self._lookups = 0
        self._attribute_bytes = 0
        self._known: dict[Parts, Directory] = {}

    def begin_layer(self, digest: str) -> None:
        self._layer += 1
        self._digest = digest
        if self._layer >= self._limits.layers:
            raise ImageBomb(f"The image has more than {self._limits.layers} layers")

    def wants_content(self, entry: Entry) -> bool:
        """Whether the bytes of this entry will be anybody's."""
        return entry.kind is Kind.FILE and not any(
            part.startswith(WHITEOUT) for part in entry.parts
        )

    def add(self, entry: Entry, content: Content | None = None) -> None:
        self._count(entry)
        if not entry.parts:
            self._become_root(entry)
            return
        *above, name = entry.parts
        if any(part.startswith(WHITEOUT) for part in entry.parts):
            self._remove(tuple(above), name)
            return
        linked = self._linked(entry) if entry.kind is Kind.LINK else None
        parent = self._directory(tuple(above), entry.mtime_s)
        if entry.kind is Kind.DEVICE:
            self.skipped.devices += 1
            self._drop(parent, name)
            return
        existing = parent.children.get(name)
        if entry.kind is Kind.DIRECTORY and isinstance(existing, Directory):
            self._describe(existing, entry)
            self._mark(parent, name)
            return
        node = linked or self._new(entry, content, parent)
        self._put(parent, name, node)

    def nodes(self) -> Iterator[Node]:
        """Every node once, however many names it has."""
        seen: set[int] = set()
        waiting: list[Directory] = [self.root]
        yield self.root
        while waiting:
            for node in waiting.pop().children.values():
                if id(node) in seen:
                    continue
                seen.add(id(node))
                yield node
                if isinstance(node, Directory):
                    waiting.append(node)

    def _count(self, entry: Entry) -> None:
        self._entries += 1
        if self._entries > self._limits.entries:
            raise ImageBomb(f"The image has more than {self._limits.entries} entries")
        if entry.attributes:
            self._attribute_bytes += sum(len(key) + len(value) for key, value in entry.attributes)
            if self._attribute_bytes > self._limits.all_attribute_bytes:
                raise ImageBomb("The image has too many extended attributes")

    def _become_root(self, entry: Entry) -> None:
        if entry.kind is not Kind.DIRECTORY:
            raise self._unsafe(f"it makes the root a {entry.kind.value}")
        self._describe(self.root, entry)

    def _new(self, entry: Entry, content: Content | None, parent: Directory) -> Node:
        if entry.kind is Kind.DIRECTORY:
            made = self._new_directory(parent, entry.mtime_s)
            self._describe(made, entry)
            return made
        return Node(
            kind=entry.kind,
            mode=0o777 if entry.kind is Kind.SYMLINK else entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            mtime_s=entry.mtime_s,
            attributes=self._kept(entry.attributes),
            target=entry.target,
            content=content,
        )

    def _new_directory(self, parent: Directory, mtime_s: int) -> Directory:
        """Links can lead a short path deep down, so depth is counted here as well."""
        if parent.depth >= self._limits.depth:
            raise self._unsafe(f"its directories are more than {self._limits.depth} deep")
        return Directory(mode=0o755, uid=0, gid=0, mtime_s=mtime_s, depth=parent.depth + 1)

    def _describe(self, directory: Directory, entry: Entry) -> None:
        directory.mode = entry.mode
        directory.uid, directory.gid = entry.uid, entry.gid
        directory.mtime_s = entry.mtime_s
        directory.attributes = self._kept(entry.attributes)

    def _kept(self, attributes: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
        if not attributes:
            return ()
        kept = []
        for name, value in attributes:
            if name.startswith(_KEPT_ATTRIBUTES) and not name.startswith(_RESERVED_ATTRIBUTES):
                kept.append((name, value))
            else:
                self.skipped.attributes.add(name)
        return tuple(kept)

    def _linked(self, entry: Entry) -> Node:
        *above, name = entry.linked or (b"",)
        parent = self._look_up(tuple(above))
        found = parent.children.get(name) if parent is not None else None
        if found is None or isinstance(found, Directory):
            path = b"/".join(entry.linked)[:80]
            what = "nothing that is there" if found is None else "a directory"
            raise self._unsafe(f"a hard link leads to {path!r}, {what}")
        return found

    def _remove(self, above: Parts, name: bytes) -> None:
        """A whiteout: of one name, or of all that lower layers have in its directory."""
        if any(part.startswith(WHITEOUT) for part in above) or name == WHITEOUT:
            if any(part.startswith(_BOOKKEEPING) for part in above):
                return
            raise self._unsafe("a whiteout is used as a name")
        parent = self._look_up(above)
        if name == OPAQUE:
            if parent is not None:
                self._clear(parent)
            return
        if name.startswith(_BOOKKEEPING):
            return
        hidden = name.removeprefix(WHITEOUT)
        if hidden in (b".", b".."):
            raise self._unsafe(f"a whiteout hides {hidden.decode()!r}")
        if parent is not None:
            self._hide(parent, hidden)

    def _hide(self, parent: Directory, name: bytes) -> None:
        child = parent.children.get(name)
        is_fresh = parent.fresh_layer == self._layer and name in parent.fresh
        if isinstance(child, Directory):
            self._clear(child)
            if is_fresh:
                return
            if child.children:
                # Only what this layer brought is left in it, and it says nothing of the directory itself.
                child.mode, child.uid, child.gid, child.attributes = 0o755, 0, 0, ()
                self._mark(parent, name)
                return
        if not is_fresh:
            self._drop(parent, name)

    def _clear(self, directory: Directory) -> None:
        if directory.cleared_layer == self._layer:
            return
        directory.cleared_layer = self._layer
        for name in list(directory.children):
            self._hide(directory, name)

    def _put(self, parent: Directory, name: bytes, node: Node) -> None:
        self._drop(parent, name)
        parent.children[name] = node
        self._mark(parent, name)

    def _mark(self, parent: Directory, name: bytes) -> None:
        if parent.fresh_layer != self._layer:
            parent.fresh_layer = self._layer
            parent.fresh = set()
        parent.fresh.add(name)

    def _drop(self, parent: Directory, name: bytes) -> None:
        gone = parent.children.pop(name, None)
        if gone is not None and gone.kind in (Kind.DIRECTORY, Kind.SYMLINK):
            self._known.clear()

    def _directory(self, parts: Parts, mtime_s: int) -> Directory:
        """The directory a path leads to, made where it is not there."""
        found = self._known.get(parts)
        if found is None:
            walked = self._walk(parts, mtime_s)
            assert walked is not None  # noqa: S101 - for mypy: what is missing was made
            found = self._known[parts] = walked
        return found

    def _look_up(self, parts: Parts) -> Directory | None:
        return self._known.get(parts) or self._walk(parts, None)

    def _walk(self, parts: Parts, making_mtime_s: int | None) -> Directory | None:
        here = self.root
        waiting = deque(parts)
        above: list[Directory] = []
        hops = 0
        while waiting:
            self._lookups += 1
            if self._lookups > self._limits.lookups:
                raise ImageBomb("The image's paths and links take too long to follow")
            name = waiting.popleft()
            if name in (b"", b"."):
                continue
            if name == b"..":
                here = above.pop() if above else self.root
                continue
            child = here.children.get(name)
            if child is not None and child.kind is Kind.SYMLINK:
                hops += 1
                if hops > self._limits.symlink_hops:
                    raise self._unsafe(f"its symbolic links lead in a circle at {name[:80]!r}")
                waiting.extendleft(reversed(child.target.split(b"/")))
                if child.target.startswith(b"/"):
                    here, above = self.root, []
                continue
            if not isinstance(child, Directory):
                if making_mtime_s is None:
                    return None
                child = self._new_directory(here, making_mtime_s)
                self._put(here, name, child)
            above.append(here)
            here = child
        return here

    def _unsafe(self, why: str) -> ImageUnsafe:
        return ImageUnsafe(self._digest, why)
