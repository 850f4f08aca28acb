"""Layers over layers: what the one on top says holds, and a whiteout hides what is below it only."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from tests.conftest import unprivileged
from tests.images.layers.packing import Item, applied, read_back, squash, tar_of


def test_owners_modes_and_times_are_kept(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [
            Item("./", kind="directory", mode=0o700, uid=3, gid=4),
            Item("bin/su", data=b"#!", mode=0o4755, uid=1000, gid=2000, mtime=1234567890.5),
            Item("var/tmp/", kind="directory", mode=0o1777),
            Item("sh", kind="symlink", target="/bin/su", uid=7),
            Item("pipe", kind="fifo", mode=0o600),
        ],
    )
    program = seen["bin/su"]
    assert (program.mode, program.uid, program.gid) == (0o4755, 1000, 2000)
    assert (program.mtime_s, program.data) == (1234567890, b"#!")
    assert seen["var/tmp"].mode == 0o1777
    assert (seen["sh"].target, seen["sh"].uid) == ("/bin/su", 7)
    assert seen["pipe"].kind == "fifo"
    assert seen["bin"].kind == "directory"


def test_an_ordinary_user_keeps_owners_and_powers_too(public_directory: Path) -> None:
    public_directory.chmod(0o777)
    capability = "\x01\x00\x00\x02\x01" + "\x00" * 15
    items = [Item("su", mode=0o4755, uid=0), Item("of", uid=70000, gid=12)]
    items += [Item("cap", attributes={"security.capability": capability})]
    with unprivileged():
        packed, _ = squash(public_directory, items)
        assert packed.stat().st_uid == os.geteuid()
    seen = read_back(packed)
    assert (seen["su"].mode, seen["su"].uid) == (0o4755, 0)
    assert (seen["of"].uid, seen["of"].gid) == (70000, 12)
    assert seen["cap"].attributes == {"security.capability": capability}


def test_a_later_layer_replaces_files_and_describes_directories_anew(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [
            Item("etc/", kind="directory", mode=0o700),
            Item("etc/motd", data=b"old"),
            Item("etc/kept", data=b"kept"),
        ],
        [Item("etc/", kind="directory", mode=0o755, uid=9), Item("etc/motd", data=b"new", uid=5)],
    )
    assert seen["etc/motd"].data == b"new"
    assert seen["etc/motd"].uid == 5
    assert seen["etc/kept"].data == b"kept"
    assert (seen["etc"].mode, seen["etc"].uid) == (0o755, 9)


def test_a_name_can_become_something_else(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [
            Item("a/inner", data=b"1"),
            Item("b", data=b"2"),
            Item("c", kind="symlink", target="b"),
            Item("d/", kind="directory"),
        ],
        [
            Item("a", data=b"now a file"),
            Item("b/", kind="directory"),
            Item("c/", kind="directory"),
            Item("d", kind="symlink", target="a"),
        ],
    )
    assert {name: item.kind for name, item in seen.items()} == {
        "a": "file",
        "b": "directory",
        "c": "directory",
        "d": "symlink",
    }


def test_a_whiteout_hides_files_and_whole_directories_of_lower_layers(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("a", data=b"1"), Item("d/x/y", data=b"2"), Item("d/z", data=b"3")],
        [Item(".wh.a"), Item("d/.wh.x"), Item("d/.wh.never-there"), Item("nowhere/.wh.q")],
    )
    assert sorted(seen) == ["d", "d/z"]


def test_a_whiteout_spares_what_its_own_layer_brings_whatever_the_order(tmp_path: Path) -> None:
    for number, second in enumerate(
        ([Item(".wh.d"), Item("d/new", data=b"2")], [Item("d/new", data=b"2"), Item(".wh.d")])
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        lower = [Item("d/", kind="directory", mode=0o700), Item("d/old", data=b"1")]
        seen = applied(directory, lower, second)
        assert sorted(seen) == ["d", "d/new"]
        assert seen["d"].mode == 0o755


def test_a_whiteout_leaves_what_its_layer_says_of_the_directory(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("d/", kind="directory", mode=0o711), Item("d/old", data=b"1")],
        [Item("d/", kind="directory", mode=0o700, uid=4), Item("d/new"), Item(".wh.d")],
    )
    assert sorted(seen) == ["d", "d/new"]
    assert (seen["d"].mode, seen["d"].uid) == (0o700, 4)


def test_an_opaque_directory_shows_only_its_own_layer(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("d/old/deep", data=b"1"), Item("d/both", data=b"1")],
        [
            Item("d/", kind="directory"),
            Item("d/both", data=b"2"),
            Item("d/.wh..wh..opq"),
            Item("d/new", data=b"3"),
        ],
    )
    assert sorted(seen) == ["d", "d/both", "d/new"]
    assert seen["d/both"].data == b"2"


def test_a_whiteout_below_a_whiteout_brings_nothing_back(tmp_path: Path) -> None:
    seen = applied(tmp_path, [Item("f", data=b"1")], [Item(".wh.f")], [Item("g"), Item(".wh.f")])
    assert sorted(seen) == ["g"]


def test_hard_links_hold_over_layers_and_outlive_the_other_name(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("one", data=b"shared", uid=3)],
        [Item("two", kind="link", target="one"), Item("three", kind="link", target="./two")],
        [Item(".wh.one")],
    )
    assert sorted(seen) == ["three", "two"]
    assert seen["three"].data == b"shared"
    assert (seen["two"].kind, seen["two"].target) == ("link", "three")


def test_replacing_one_name_of_a_file_leaves_the_other(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("a", data=b"old"), Item("b", kind="link", target="a")],
        [Item("a", data=b"new")],
    )
    assert (seen["a"].data, seen["b"].data) == (b"new", b"old")


def test_of_an_entry_that_comes_twice_the_last_counts(tmp_path: Path) -> None:
    assert applied(tmp_path, [Item("a", data=b"1"), Item("a", data=b"2")])["a"].data == b"2"


def test_a_path_through_a_lower_symbolic_link_lands_where_it_leads(tmp_path: Path) -> None:
    seen = applied(
        tmp_path,
        [Item("usr/lib/", kind="directory"), Item("lib", kind="symlink", target="usr/lib")],
        [Item("lib/libc.so", data=b"elf")],
    )
    assert seen["lib"].kind == "symlink"
    assert seen["usr/lib/libc.so"].data == b"elf"


def test_devices_and_foreign_attributes_are_left_out_and_told(tmp_path: Path) -> None:
    items = [
        Item("dev/null", kind="device"),
        Item("f", attributes={"user.kept": "yes", "system.posix_acl_access": "no"}),
        Item("g", attributes={"trusted.overlay.redirect": "/etc"}),
    ]
    _, made = squash(tmp_path, items)
    assert made.skipped_devices == 1
    assert made.skipped_attributes == ("system.posix_acl_access", "trusted.overlay.redirect")
    seen = applied(tmp_path, items)
    assert "dev/null" not in seen
    assert seen["f"].attributes == {"user.kept": "yes"}
    assert seen["g"].attributes == {}


def test_attributes_are_kept_and_replaced_with_their_file(tmp_path: Path) -> None:
    capability = "\x01\x00\x00\x02\x00\x20\x00\x00" + "\x00" * 12
    seen = applied(
        tmp_path,
        [
            Item("ping", data=b"elf", attributes={"security.capability": capability, "user.a": ""}),
            Item("same", attributes={"security.capability": capability, "user.a": ""}),
            Item("gone", attributes={"user.x": "1"}),
            Item("d/", kind="directory", attributes={"user.d": "dir"}),
            Item("l", kind="symlink", target="d", attributes={"security.selinux": "x"}),
            Item("p", kind="fifo", attributes={"trusted.p": "v" * 9000}),
        ],
        [Item("gone", data=b"plain")],
    )
    assert seen["ping"].attributes == {"security.capability": capability, "user.a": ""}
    assert seen["same"].attributes == seen["ping"].attributes
    assert seen["gone"].attributes == {}
    assert seen["d"].attributes == {"user.d": "dir"}
    assert seen["l"].attributes == {"security.selinux": "x"}
    assert seen["p"].attributes == {"trusted.p": "v" * 9000}


def test_the_same_layers_give_the_same_bytes(tmp_path: Path) -> None:
    layers = ([Item("a", data=b"1"), Item("b/c", data=b"2")], [Item("b/.wh.c"), Item("d")])
    first = squash(tmp_path, *layers)[0].read_bytes()
    assert squash(tmp_path, *layers)[0].read_bytes() == first


def test_all_ways_to_write_a_tar_mean_the_same(tmp_path: Path) -> None:
    items = [
        Item("deep/" * 20 + "x" * 150, data=b"long name", uid=70000, gid=70000),
        Item("l", kind="symlink", target="t/" * 90),
        Item("h", kind="link", target="deep/" * 20 + "x" * 150),
    ]
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        seen = applied(tmp_path, tar_of(items, format=format))
        assert seen["deep/" * 20 + "x" * 150].data == b"long name"
        assert seen["deep/" * 20 + "x" * 150].uid == 70000
        assert seen["l"].target == "t/" * 90
        assert seen["h"].kind == "link"
    old = tar_of([Item("a", data=b"1", uid=5), Item("d/", kind="directory")])
    assert applied(tmp_path, old)["a"].uid == 5


def test_no_layers_are_an_empty_root(tmp_path: Path) -> None:
    assert applied(tmp_path) == {}
    assert applied(tmp_path, b"") == {}
