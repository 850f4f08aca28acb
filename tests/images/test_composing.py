"""Several images as one root on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crucible.errors import BadSetting
from crucible.images.catalog import Image
from crucible.images.composing import (
    check_parts,
    composed,
    make_composed,
    remove_unused_compositions,
)
from crucible.wire.composition import BODY_AT, MAGIC, decode_composition


def image_of(path: Path, content: bytes, *, name: str, workdir: str = "/") -> Image:
    path.write_bytes(content)
    return Image(
        name=name,
        digest=f"digest of {content!r}",
        root=path,
        size_bytes=len(content),
        user="app",
        workdir=workdir,
        environment=(("A", "b"),),
    )


@pytest.fixture
def first(tmp_path: Path) -> Image:
    return image_of(tmp_path / "first", b"first" * 1000, name="agent:1", workdir="/agent")


@pytest.fixture
def other(tmp_path: Path) -> Image:
    return image_of(tmp_path / "other", b"o" * 4096, name="app:1")


def test_each_image_lies_where_the_page_says(tmp_path: Path, first: Image, other: Image) -> None:
    image = composed(tmp_path, first, {"b": other, "a": first})
    make_composed(tmp_path, image)
    data = image.root.read_bytes()
    assert data.startswith(MAGIC)
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    parts = decode_composition(data[BODY_AT : BODY_AT + size])
    assert [part.name for part in parts] == ["", "a", "b"]
    for part, source in zip(parts, (first, first, other), strict=True):
        content = source.root.read_bytes()
        assert part.offset % 4096 == part.length % 4096 == 0
        lying = data[part.offset : part.offset + part.length]
        assert lying == content + bytes(part.length - len(content))
        assert (part.user, part.workdir) == ("app", source.workdir.encode())
    assert len(data) == parts[-1].offset + parts[-1].length
    assert image.root.stat().st_mode & 0o777 == 0o644


def test_it_is_the_first_image_with_others_beside_it(
    tmp_path: Path, first: Image, other: Image
) -> None:
    image = composed(tmp_path, first, {"app": other})
    assert (image.name, image.user, image.workdir) == ("agent:1", "app", "/agent")
    assert image.part("app") == other
    assert (first.workspace, image.workspace) == ("/agent", "/workspace")
    with pytest.raises(BadSetting, match="nosuch") as refused:
        image.part("nosuch")
    assert "app" in refused.value.hint


def test_the_same_images_are_the_same_root_and_others_another(
    tmp_path: Path, first: Image, other: Image
) -> None:
    digests = {
        composed(tmp_path, first, {"a": other, "b": first}).digest,
        composed(tmp_path, first, {"b": first, "a": other}).digest,
    }
    assert len(digests) == 1
    digests |= {
        composed(tmp_path, first, {"a": first, "b": other}).digest,
        composed(tmp_path, first, {"a": other}).digest,
        composed(tmp_path, other, {"a": other}).digest,
    }
    assert len(digests) == 4


def test_a_root_is_made_once_and_whole(tmp_path: Path, first: Image, other: Image) -> None:
    image = composed(tmp_path, first, {"app": other})
    told: list[str] = []
    for _ in range(2):
        make_composed(tmp_path, image, lambda stage, detail: told.append(detail))
    assert told == ["putting 2 images together"]
    missing = composed(tmp_path, first, {"app": other, "more": other})
    other.root.unlink()
    with pytest.raises(FileNotFoundError):
        make_composed(tmp_path, missing)
    assert [path.name for path in image.root.parent.iterdir()] == [image.root.name]


def test_only_roots_that_nobody_holds_are_removed(
    tmp_path: Path, first: Image, other: Image
) -> None:
    held, idle, fresh = (
        composed(tmp_path, first, {name: other}) for name in ("held", "idle", "fresh")
    )
    for image in (held, idle, fresh):
        make_composed(tmp_path, image)
    (tmp_path / "template").hardlink_to(held.root)
    for image in (held, idle):
        os.utime(image.root, (1, 1))
    size = idle.root.stat().st_size
    assert remove_unused_compositions(tmp_path) == size
    assert [image.root.exists() for image in (held, idle, fresh)] == [True, False, True]
    assert remove_unused_compositions(tmp_path) == 0


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a" * 33, "-a", "a\n", "ä"])
def test_a_name_is_small_and_plain(name: str) -> None:
    with pytest.raises(BadSetting):
        check_parts({name: "base"})


def test_there_can_be_too_many() -> None:
    check_parts({f"n{number}": "base" for number in range(15)})
    with pytest.raises(BadSetting):
        check_parts({f"n{number}": "base" for number in range(16)})
