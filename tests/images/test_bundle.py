"""Bundles appear whole or not at all, and damage is seen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from crucible.images import bundle
from crucible.images.bundle import Bundle, BundleDamaged


def publish(shelf: Path, text: str = "content", name: str = "") -> Bundle:
    with bundle.workplace(shelf) as work:
        content = work / "content"
        (content / "deep").mkdir(parents=True)
        (content / "deep" / "file").write_text(text)
        return bundle.publish(content, shelf, facts={"who": "me", "list": ("a", "b")}, name=name)


def test_what_was_published_is_loaded(tmp_path: Path) -> None:
    made = publish(tmp_path)
    found = bundle.load_current(tmp_path)
    assert found == made
    assert made.path.name == made.digest[:12]
    assert made.fact("who") == "me"
    assert made.facts_listed("list") == ("a", "b")
    bundle.verify(made)


def test_others_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = publish(tmp_path / "shelf")
    finally:
        os.umask(before)
    assert made.path.stat().st_mode & 0o777 == 0o755
    assert (made.path / "deep" / "file").stat().st_mode & 0o777 == 0o644


def test_an_empty_shelf_has_no_current_bundle(tmp_path: Path) -> None:
    assert bundle.load_current(tmp_path / "nowhere") is None


def test_the_digest_changes_with_the_content_only(tmp_path: Path) -> None:
    first = publish(tmp_path / "one")
    second = publish(tmp_path / "two")
    third = publish(tmp_path / "three", text="changed")
    assert first.digest == second.digest != third.digest


def test_publishing_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    publish(tmp_path, name="v1")
    publish(tmp_path, text="longer content", name="v1")
    found = bundle.load_current(tmp_path)
    assert found is not None
    assert (found.path / "deep" / "file").read_text() == "longer content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "v1"]


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    def build() -> None:
        with bundle.workplace(tmp_path) as work:
            (work / "half").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_builder_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".new-dead").mkdir()
    (tmp_path / ".new-dead" / "file").write_text("half")
    publish(tmp_path, name="v1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "v1"]


def test_a_file_cut_short_is_seen(tmp_path: Path) -> None:
    made = publish(tmp_path)
    (made.path / "deep" / "file").write_text("cont")
    with pytest.raises(BundleDamaged, match="4 bytes instead of 7"):
        bundle.load(made.path)


def test_a_missing_file_is_seen(tmp_path: Path) -> None:
    made = publish(tmp_path)
    (made.path / "deep" / "file").unlink()
    with pytest.raises(BundleDamaged, match="missing"):
        bundle.load(made.path)


def test_a_changed_byte_is_seen_by_verify(tmp_path: Path) -> None:
    made = publish(tmp_path)
    (made.path / "deep" / "file").write_text("Content")
    with pytest.raises(BundleDamaged, match="changed"):
        bundle.verify(bundle.load(made.path))


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 99, "files": {}}',
        '{"format": 1, "digest": "d", "facts": {}, "files": []}',
        '{"format": 1, "digest": "d", "facts": {"a": 1}, "files": {}}',
        '{"format": 1, "digest": "d", "facts": {}, "files": {"f": {"size": "many"}}}',
    ],
)
def test_an_unreadable_manifest_is_damage(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(BundleDamaged):
        bundle.load(tmp_path)


@pytest.mark.parametrize("pointer", ["", "../elsewhere", ".new-1", "/etc"])
def test_a_pointer_cannot_leave_the_shelf(tmp_path: Path, pointer: str) -> None:
    (tmp_path / "current").write_text(pointer)
    with pytest.raises(BundleDamaged):
        bundle.load_current(tmp_path)


def test_a_fact_that_is_not_there_is_damage(tmp_path: Path) -> None:
    made = publish(tmp_path)
    with pytest.raises(BundleDamaged, match="colour"):
        made.fact("colour")


def test_a_durable_write_leaves_no_second_file(tmp_path: Path) -> None:
    bundle.write_durably(tmp_path / "file", b"one")
    bundle.write_durably(tmp_path / "file", b"two")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"two"]


def test_the_manifest_names_no_path_of_this_machine(tmp_path: Path) -> None:
    made = publish(tmp_path)
    manifest = (made.path / "manifest.json").read_text()
    assert str(tmp_path) not in manifest
    assert json.loads(manifest)["format"] == bundle.FORMAT
