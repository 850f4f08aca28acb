"""Any layers at all: the root is what a model makes of them that is too simple to be wrong; no bytes crash us."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.images.layers.packing import Item, applied, layer_of, tar_of

from crucible.errors import CrucibleError, ImageUnsafe
from crucible.images.layers.headers import Entry, Kind
from crucible.images.layers.limits import Limits
from crucible.images.layers.rootfs import write_root
from crucible.images.layers.tree import Directory, Tree
from crucible.images.oci.model import Compression

HOPS = Limits().symlink_hops
Path_ = tuple[str, ...]

names = st.sampled_from(["a", "b"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
targets = st.one_of(
    paths,
    paths.map(lambda path: f"/{path}"),
    st.sampled_from(["..", "../..", "/", ".", "../a", "a/../b", "../../c/b"]),
)
modes = st.sampled_from([0o755, 0o700, 0o4711])
items = st.one_of(
    st.builds(Item, paths, st.just("file"), st.binary(max_size=3), mode=modes),
    st.builds(Item, paths, st.just("directory"), mode=modes),
    st.builds(Item, paths, st.just("symlink"), target=targets, mode=st.just(0o777)),
    st.builds(Item, paths, st.just("link"), target=paths),
    st.builds(Item, paths, st.just("device")),
    st.builds(lambda path: Item(_before(path, ".wh.")), paths),
    st.builds(lambda path: Item(f"{path}/.wh..wh..opq"), paths),
)
layers = st.lists(st.lists(items, max_size=8), min_size=1, max_size=4)


def _before(path: str, prefix: str) -> str:
    above, slash, name = path.rpartition("/")
    return f"{above}{slash}{prefix}{name}"


@dataclass(eq=False)
class Thing:
    """What lies under a path. Two paths with the same thing are hard links."""

    kind: str
    mode: int
    data: bytes = b""
    target: str = ""


@dataclass
class Model:
    """All paths in one dictionary, with the layer that last named each."""

    things: dict[Path_, Thing] = field(default_factory=dict)
    named: dict[Path_, int] = field(default_factory=dict)
    layer: int = -1

    def apply(self, item: Item) -> None:
        *above, name = item.name.split("/")
        if name.startswith(".wh."):
            where = self.resolve(tuple(above), make=False)
            if where is None:
                return
            if name == ".wh..wh..opq":
                self.hide(where, inclusive=False)
            elif (*where, name.removeprefix(".wh.")) in self.things:
                self.hide((*where, name.removeprefix(".wh.")), inclusive=True)
            return
        thing = Thing(item.kind, item.mode, item.data, item.target)
        if item.kind == "link":
            thing = self.linked(item.target)
        where = self.resolve(tuple(above), make=True)
        assert where is not None
        path = (*where, name)
        there = self.things.get(path)
        if item.kind == "directory" and there is not None and there.kind == "directory":
            there.mode = item.mode
            self.named[path] = self.layer
            return
        self.remove(path)
        if item.kind != "device":
            self.things[path] = thing
            self.named[path] = self.layer

    def linked(self, target: str) -> Thing:
        *above, name = target.split("/")
        where = self.resolve(tuple(above), make=False)
        thing = None if where is None else self.things.get((*where, name))
        if thing is None or thing.kind == "directory":
            raise ImageUnsafe("", "link")
        return thing

    def resolve(self, path: Path_, *, make: bool) -> Path_ | None:
        """One name after the other; a link is replaced by what it says, and it goes on from there."""
        here: Path_ = ()
        rest = list(path)
        hops = 0
        while rest:
            name = rest.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                here = here[:-1]
                continue
            thing = self.things.get((*here, name))
            if thing is not None and thing.kind == "symlink":
                hops += 1
                if hops > HOPS:
                    raise ImageUnsafe("", "circle")
                if thing.target.startswith("/"):
                    here = ()
                rest = thing.target.split("/") + rest
                continue
            here = (*here, name)
            if thing is None or thing.kind != "directory":
                if not make:
                    return None
                self.remove(here)
                self.things[here] = Thing("directory", 0o755)
                self.named[here] = self.layer
        return here

    def remove(self, path: Path_) -> None:
        for each in [each for each in self.things if each[: len(path)] == path]:
            del self.things[each], self.named[each]

    def hide(self, path: Path_, *, inclusive: bool) -> None:
        below = [each for each in self.things if each[: len(path)] == path]
        if not inclusive:
            below = [each for each in below if each != path]
        fresh = [each for each in below if self.named[each] == self.layer]
        for each in below:
            if each in fresh:
                continue
            if any(one[: len(each)] == each for one in fresh):
                self.things[each] = Thing("directory", 0o755)
                self.named[each] = self.layer
            else:
                del self.things[each], self.named[each]


def modelled(all_layers: list[list[Item]]) -> dict[str, tuple[str, int, bytes, str]]:
    model = Model()
    for number, layer in enumerate(all_layers):
        model.layer = number
        for item in layer:
            model.apply(item)
    return {
        "/".join(path): (thing.kind, thing.mode, thing.data, thing.target)
        for path, thing in model.things.items()
    }


@given(layers)
@settings(max_examples=1500, deadline=None)
def test_the_tree_is_what_the_model_says(all_layers: list[list[Item]]) -> None:
    try:
        expected = modelled(all_layers)
    except ImageUnsafe:
        expected = None
    tree = Tree(Limits())
    try:
        for layer in all_layers:
            tree.begin_layer("")
            for item in layer:
                tree.add(_entry(item))
    except ImageUnsafe:
        assert expected is None
        return
    assert dict(_listed(tree.root)) == expected


def _entry(item: Item) -> Entry:
    return Entry(
        parts=_parts(item.name),
        kind=_KINDS[item.kind],
        mode=item.mode,
        uid=0,
        gid=0,
        mtime_s=0,
        # The model knows bytes and the tree only where they lie, so here they travel as a target.
        target=item.data if item.kind == "file" else item.target.encode(),
        linked=_parts(item.target) if item.kind == "link" else (),
    )


def _parts(path: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in path.split("/"))


_KINDS = {
    "file": Kind.FILE,
    "directory": Kind.DIRECTORY,
    "symlink": Kind.SYMLINK,
    "link": Kind.LINK,
    "device": Kind.DEVICE,
}


def _listed(directory: Directory) -> Iterator[tuple[str, tuple[str, int, bytes, str]]]:
    for raw, node in directory.children.items():
        name = raw.decode()
        is_file = node.kind is Kind.FILE
        kind = next(word for word, kind in _KINDS.items() if kind is node.kind)
        data, target = (node.target, "") if is_file else (b"", node.target.decode())
        yield name, (kind, node.mode, data, target)
        if isinstance(node, Directory):
            for inner, facts in _listed(node):
                yield f"{name}/{inner}", facts


@given(layers)
@settings(max_examples=60, deadline=None)
def test_the_filesystem_is_what_the_model_says(all_layers: list[list[Item]]) -> None:
    try:
        expected = modelled(all_layers)
    except ImageUnsafe:
        expected = None
    with tempfile.TemporaryDirectory() as directory:
        try:
            seen = applied(Path(directory), *all_layers)
        except ImageUnsafe:
            assert expected is None
            return
    found = {}
    for name, item in seen.items():
        shown = seen[item.target] if item.kind == "link" else item
        found[name] = (shown.kind, shown.mode, shown.data, shown.target)
    assert found == expected


_sample = tar_of(
    [
        Item("d/", kind="directory"),
        Item("d/f", data=b"content", attributes={"user.a": "b"}),
        Item("x" * 130, data=b"long"),
        Item("l", kind="symlink", target="d/f"),
        Item("h", kind="link", target="d/f"),
        Item("d/.wh.g"),
    ]
)


@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(_sample) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    mends_checksums=st.booleans(),
    length=st.integers(0, len(_sample)),
    compression=st.sampled_from(list(Compression)),
)
@settings(max_examples=300, deadline=None)
def test_a_layer_with_wrong_bytes_is_read_or_refused(
    changes: list[tuple[int, int]], mends_checksums: bool, length: int, compression: Compression
) -> None:
    tar = bytearray(_sample)
    for place, value in changes:
        tar[place] = value
    if mends_checksums:
        for start in range(0, len(tar), 512):
            if tar[start + 257 : start + 262] == b"ustar":
                tar[start + 148 : start + 156] = b" " * 8
                tar[start + 148 : start + 156] = b"%06o\0 " % sum(tar[start : start + 512])
    _read_or_refused(bytes(tar), compression)
    _read_or_refused(bytes(tar[:length]), compression)


@given(st.binary(max_size=3000))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    _read_or_refused(data, Compression.NONE)


def _read_or_refused(tar: bytes, compression: Compression) -> None:
    limits = Limits(total_bytes=1 << 20, header_bytes=1 << 16)
    with tempfile.TemporaryDirectory() as directory:
        layer = layer_of(Path(directory), tar, compression)
        try:
            write_root([layer], Path(directory) / "root", limits=limits)
        except CrucibleError:
            return
