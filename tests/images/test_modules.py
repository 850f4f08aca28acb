"""Kernel modules: the order they load in, and what is taken from a kernel package's tree."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BuildFailed
from crucible.images import modules
from crucible.images.modules import REQUIRED, collect, depends_of, load_order, module_name


def module(*depends: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(depends).encode() + b"\0retpoline=Y\0"


def tree(root: Path, files: dict[str, bytes], built_in: tuple[str, ...] = ()) -> Path:
    for name, data in files.items():
        path = root / "kernel" / "drivers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    listed = "".join(f"kernel/fs/{name}.ko\n" for name in built_in)
    (root / "modules.builtin").write_text(listed)
    return root


def test_each_module_comes_after_what_it_needs() -> None:
    depends = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    assert load_order(["a"], depends) == ("d", "b", "c", "a")


def test_a_module_wanted_twice_is_loaded_once() -> None:
    assert load_order(["a", "b", "a"], {"a": ["b"], "b": []}) == ("b", "a")


def test_a_circle_is_named() -> None:
    with pytest.raises(BuildFailed, match="b → c → b"):
        load_order(["a"], {"a": ["b"], "b": ["c"], "c": ["b"]})


def test_a_module_that_needs_itself_is_a_circle() -> None:
    with pytest.raises(BuildFailed, match="a → a"):
        load_order(["a"], {"a": ["a"]})


def test_an_unknown_dependency_names_who_needs_it() -> None:
    with pytest.raises(BuildFailed, match="'gone', which 'a' needs"):
        load_order(["a"], {"a": ["gone"]})


@given(st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 30), max_size=5)))
def test_any_graph_without_circles_is_ordered(graph: dict[int, list[int]]) -> None:
    # Edges to smaller numbers only: no circle can arise.
    depends = {str(n): [str(m) for m in graph.get(n, []) if m < n] for n in range(31)}
    order = load_order(depends, depends)
    assert sorted(order) == sorted(depends)
    for name in order:
        assert all(order.index(needed) < order.index(name) for needed in depends[name])


@pytest.mark.parametrize(
    "file, name",
    [
        ("virtio-mmio.ko", "virtio_mmio"),
        ("virtio_blk.ko.xz", "virtio_blk"),
        ("crc32c-intel.ko.zst", "crc32c_intel"),
    ],
)
def test_module_names_are_as_the_kernel_spells_them(file: str, name: str) -> None:
    assert module_name(file) == name


def test_dependencies_are_read_from_the_module_itself() -> None:
    assert depends_of(module("virtio", "virtio-ring")) == ("virtio", "virtio_ring")
    assert depends_of(module()) == ()


def test_a_file_that_is_no_module_is_refused() -> None:
    with pytest.raises(BuildFailed):
        depends_of(b"nothing of the kind")


def test_built_in_ones_are_left_out_and_compressed_ones_unpacked(tmp_path: Path) -> None:
    files = {f"{name}.ko": module() for name in REQUIRED if name not in ("ext4", "virtio_blk")}
    files["virtio_blk.ko.xz"] = lzma.compress(module("virtio_ring", "jbd2"))
    files["virtio_ring.ko.zst"] = zstd.compress(module())
    files["unrelated.ko"] = module("virtio_ring")
    found = collect(tree(tmp_path, files, built_in=("ext4", "jbd2")), "x86_64")
    names = list(found)
    assert "ext4" not in names
    assert "unrelated" not in names
    assert names.index("virtio_ring") < names.index("virtio_blk")
    assert found["virtio_blk"] == module("virtio_ring", "jbd2")
    assert found["virtio_ring"] == module()


def test_one_that_is_cut_short_or_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = zstd.compress(module())
    for number, bad in enumerate((packed[:-1], packed + b"more", b"")):
        files = {f"{name}.ko": module() for name in REQUIRED} | {"virtio_mmio.ko.zst": bad}
        del files["virtio_mmio.ko"]
        made = tree(tmp_path / str(number), files)
        with pytest.raises(BuildFailed, match="virtio_mmio"):
            collect(made, "x86_64")
    monkeypatch.setattr(modules, "_LARGEST", len(module()) - 1)
    files["virtio_mmio.ko.zst"] = packed
    with pytest.raises(BuildFailed, match="more than it may be"):
        collect(tree(tmp_path / "large", files), "x86_64")


def test_a_kernel_without_a_required_module_is_refused(tmp_path: Path) -> None:
    files = {f"{name}.ko": module() for name in REQUIRED if name != "overlay"}
    with pytest.raises(BuildFailed, match="overlay"):
        collect(tree(tmp_path, files), "x86_64")


def test_arm_machines_get_their_transport(tmp_path: Path) -> None:
    files = {f"{name}.ko": module() for name in (*REQUIRED, "virtio_pci")}
    made = tree(tmp_path, files)
    assert "virtio_pci" in collect(made, "aarch64")
    assert "virtio_pci" not in collect(made, "x86_64")
