"""A root that grows layer by layer is, at each step, what its layers make when they are all read anew."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from tests.images.layers.packing import Item, layer_of, tar_of
from tests.images.layers.test_against_a_model import layers as any_layers

from crucible.errors import CrucibleError, ImageUnsafe
from crucible.images.layers.growing import GrowingRoot
from crucible.images.layers.rootfs import write_root
from crucible.images.oci.model import Layer


def written(layers: Sequence[Layer], target: Path) -> bytes | type[CrucibleError]:
    try:
        write_root(layers, target)
    except CrucibleError as error:
        return type(error)
    return target.read_bytes()


@given(given_layers=any_layers)
def test_each_step_gives_the_bytes_of_a_root_made_anew(given_layers: list[list[Item]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        layers = [layer_of(directory, tar_of(items)) for items in given_layers]
        with GrowingRoot(directory) as growing:
            for count in range(1, len(layers) + 1):
                wanted = written(layers[:count], directory / "anew")
                if isinstance(wanted, bytes):
                    growing.write(layers[:count], directory / "grown")
                    assert (directory / "grown").read_bytes() == wanted
                else:
                    with pytest.raises(wanted):
                        growing.write(layers[:count], directory / "grown")


def test_one_that_shares_nothing_is_begun_anew(tmp_path: Path) -> None:
    first = [layer_of(tmp_path, tar_of([Item("a", data=b"a" * 5000)]))]
    other = [layer_of(tmp_path, tar_of([Item("b", data=b"b" * 300_000)]))]
    with GrowingRoot(tmp_path) as growing:
        for layers in (first, other, [*other, *first], first):
            growing.write(layers, tmp_path / "grown")
            assert (tmp_path / "grown").read_bytes() == written(layers, tmp_path / "anew")


def test_a_layer_that_is_refused_is_not_in_what_comes_after(tmp_path: Path) -> None:
    good = layer_of(tmp_path, tar_of([Item("a", data=b"a")]))
    bad = layer_of(tmp_path, tar_of([Item("b", data=b"b"), Item("../c", data=b"c")]))
    with GrowingRoot(tmp_path) as growing:
        growing.write([good], tmp_path / "grown")
        with pytest.raises(ImageUnsafe):
            growing.write([good, bad], tmp_path / "refused")
        growing.write([good], tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "grown").read_bytes()


def test_what_later_layers_replace_takes_no_room_for_long(tmp_path: Path) -> None:
    """Then gaps are closed, which only a root made anew does."""
    large = [
        layer_of(tmp_path, tar_of([Item("a", data=bytes([number]) * (40 << 20))]))
        for number in (1, 2)
    ]
    with GrowingRoot(tmp_path) as growing:
        for count in (1, 2):
            growing.write(large[:count], tmp_path / "grown")
            wanted = written(large[:count], tmp_path / "anew")
            assert (tmp_path / "grown").read_bytes() == wanted
            assert isinstance(wanted, bytes)
            assert len(wanted) < 50 << 20
