"""Finding images and kernels on disk, and what is said when they are not as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.errors import ImageDamaged, ImageMissing, KernelMissing
from crucible.images import bundle, catalog, kernel
from crucible.images.catalog import Image


def make_image(home: Path, name: str, text: str = "squash") -> Image:
    shelf = catalog.shelf_of(home, name)
    with bundle.workplace(shelf) as work:
        content = work / "image"
        content.mkdir()
        (content / catalog.ROOT_FILE).write_text(text)
        (content / catalog.PACKAGES_FILE).write_text("bash 5.2 amd64\n")
        facts: bundle.Facts = {
            "user": "user",
            "workdir": "/workspace",
            "environment": ("A=1=2", "B="),
            "recipe": "r",
        }
        bundle.publish(content, shelf, facts=facts)
    return catalog.load_image(home, name)


def make_kernel(home: Path, **further: bytes) -> None:
    shelf = home / "kernels"
    with bundle.workplace(shelf) as work:
        content = work / "kernel"
        (content / "modules").mkdir(parents=True)
        (content / "vmlinuz").write_bytes(b"bzImage")
        for name, data in further.items():
            (content / name).write_bytes(data)
        (content / "modules" / "00-virtio.ko").write_bytes(b"elf")
        facts: bundle.Facts = {"version": "6.1", "modules": ("modules/00-virtio.ko",)}
        bundle.publish(content, shelf, facts=facts, name="6.1")


def test_an_image_is_found_with_its_facts(tmp_path: Path) -> None:
    image = make_image(tmp_path, "base")
    assert image.root.read_text() == "squash"
    assert image.packages is not None
    assert image.packages.read_text() == "bash 5.2 amd64\n"
    assert image.environment == (("A", "1=2"), ("B", ""))
    assert (image.user, image.workdir) == ("user", "/workspace")
    assert image.size_bytes == len("squash") + len("bash 5.2 amd64\n")


def test_a_missing_image_lists_what_there_is(tmp_path: Path) -> None:
    make_image(tmp_path, "base")
    make_image(tmp_path, "node")
    with pytest.raises(ImageMissing) as caught:
        catalog.load_image(tmp_path, "rust")
    assert "base, node" in caught.value.hint


def test_without_any_image_the_hint_is_setup(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing) as caught:
        catalog.load_image(tmp_path, "base")
    assert "crucible setup" in caught.value.hint


@pytest.mark.parametrize("name", ["", "..", "../base", "a/b", "a b", "A", "x" * 300, "a\0b", "ä"])
def test_a_name_that_is_no_name_is_just_missing(tmp_path: Path, name: str) -> None:
    make_image(tmp_path, "base")
    with pytest.raises(ImageMissing):
        catalog.load_image(tmp_path, name)


def test_an_image_cut_short_is_damaged(tmp_path: Path) -> None:
    image = make_image(tmp_path, "base")
    image.root.write_text("squ")
    with pytest.raises(ImageDamaged, match=r"root\.squashfs has 3 bytes") as caught:
        catalog.load_image(tmp_path, "base")
    assert "crucible setup" in caught.value.hint


def test_a_changed_byte_is_seen_by_verify(tmp_path: Path) -> None:
    image = make_image(tmp_path, "base")
    assert catalog.verify_image(tmp_path, "base") == image
    image.root.write_text("squish")
    with pytest.raises(ImageDamaged):
        catalog.verify_image(tmp_path, "base")


def test_images_are_listed_by_name_and_removed(tmp_path: Path) -> None:
    make_image(tmp_path, "node")
    make_image(tmp_path, "base")
    assert [image.name for image in catalog.list_images(tmp_path)] == ["base", "node"]
    catalog.remove_image(tmp_path, "base")
    assert [image.name for image in catalog.list_images(tmp_path)] == ["node"]
    with pytest.raises(ImageMissing):
        catalog.remove_image(tmp_path, "base")


def test_a_removed_name_cannot_reach_outside(tmp_path: Path) -> None:
    (tmp_path / "current").write_text("x")
    with pytest.raises(ImageMissing):
        catalog.remove_image(tmp_path / "home", "..")
    assert (tmp_path / "current").exists()


def test_older_versions_go_and_the_current_one_stays(tmp_path: Path) -> None:
    old = make_image(tmp_path, "base", "old content")
    new = make_image(tmp_path, "base", "new")
    assert catalog.remove_older_versions(tmp_path, "base") > len("old content")
    assert not old.root.exists()
    assert catalog.load_image(tmp_path, "base") == new


def test_a_kernel_is_found_with_its_modules(tmp_path: Path) -> None:
    make_kernel(tmp_path)
    found = kernel.verify_kernel(tmp_path)
    assert found == kernel.load_kernel(tmp_path)
    assert found.version == "6.1"
    assert [path.name for path in found.modules] == ["00-virtio.ko"]


def test_no_kernel_says_to_run_setup(tmp_path: Path) -> None:
    with pytest.raises(KernelMissing) as caught:
        kernel.load_kernel(tmp_path)
    assert "crucible setup" in caught.value.hint


def test_a_kernel_cut_short_is_not_usable(tmp_path: Path) -> None:
    make_kernel(tmp_path)
    (tmp_path / "kernels" / "6.1" / "vmlinuz").write_bytes(b"bz")
    with pytest.raises(KernelMissing, match="vmlinuz has 2 bytes"):
        kernel.load_kernel(tmp_path)


def test_a_changed_module_is_seen_by_verify(tmp_path: Path) -> None:
    make_kernel(tmp_path)
    (tmp_path / "kernels" / "6.1" / "modules" / "00-virtio.ko").write_bytes(b"ELF")
    kernel.load_kernel(tmp_path)
    with pytest.raises(KernelMissing, match="changed"):
        kernel.verify_kernel(tmp_path)


def test_a_kernel_that_was_unpacked_is_known_and_guarded_like_the_rest(tmp_path: Path) -> None:
    make_kernel(tmp_path)
    assert kernel.load_kernel(tmp_path).unpacked is None
    make_kernel(tmp_path, vmlinux=b"elf")
    unpacked = kernel.load_kernel(tmp_path).unpacked
    assert unpacked is not None
    assert unpacked.read_bytes() == b"elf"
    unpacked.write_bytes(b"ELF")
    with pytest.raises(KernelMissing, match="vmlinux has been changed"):
        kernel.verify_kernel(tmp_path)
    unpacked.write_bytes(b"el")
    with pytest.raises(KernelMissing, match="vmlinux has 2 bytes"):
        kernel.load_kernel(tmp_path)
