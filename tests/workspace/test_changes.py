"""What a sandbox changed, and how that is shown."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.errors import GuestRefused, PathRefused, StateDamaged
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.changes import Change, advance, compare
from crucible.sandbox.workspace.diff import MAX_TEXT_BYTES, render_diff
from crucible.sandbox.workspace.hosttree import HostTree
from crucible.sandbox.workspace.manifest import Manifest, collect, manifest_lines, parse_manifest


def entry(
    name: str | bytes,
    data: bytes = b"",
    *,
    type: EntryType = "file",
    mode: int = 0o644,
    target: bytes = b"",
) -> Entry:
    return Entry(
        name=name.encode() if isinstance(name, str) else name,
        type=type,
        mode=mode,
        size=len(data),
        mtime_ns=10**18,
        uid=1000,
        gid=1000,
        target=target,
        sha256=hashlib.sha256(data).digest() if type == "file" else b"",
    )


def directory(name: str, mode: int = 0o755) -> Entry:
    return entry(name, type="directory", mode=mode)


def link(name: str, target: bytes) -> Entry:
    return entry(name, type="symlink", mode=0o777, target=target)


def manifest(*entries: Entry) -> Manifest:
    return collect(entries)


def names(changes: tuple[Change, ...]) -> list[bytes]:
    return [change.name for change in changes]


def test_every_kind_of_change_is_told_apart() -> None:
    before = manifest(
        entry("same", b"x"),
        entry("edited", b"x"),
        entry("gone", b"x"),
        entry("chmod", b"x"),
        entry("turned", b"x"),
        link("link", b"a"),
        directory("dir"),
    )
    after = manifest(
        entry("same", b"x"),
        entry("edited", b"y", mode=0o600),
        entry("chmod", b"x", mode=0o755),
        link("turned", b"x"),
        link("link", b"b"),
        directory("dir", 0o700),
        entry("new", b"x"),
    )
    changes = compare(before, after)
    assert names(changes.added) == [b"new"]
    assert names(changes.modified) == [b"edited", b"link"]
    assert names(changes.deleted) == [b"gone"]
    assert names(changes.mode_changed) == [b"chmod", b"dir"]
    assert names(changes.type_changed) == [b"turned"]


def test_times_and_owners_are_no_change() -> None:
    before = entry("f", b"x")
    after = Entry(
        **{name: getattr(before, name) for name in Entry.__slots__} | {"mtime_ns": 1, "uid": 0}
    )
    assert not compare(manifest(before), manifest(after))


def test_a_directory_comes_before_what_it_holds() -> None:
    changes = compare(manifest(), manifest(entry("a/b", b""), entry("a-b", b""), directory("a")))
    assert names(changes.all) == [b"a", b"a/b", b"a-b"]


def test_changes_that_were_applied_are_not_shown_again() -> None:
    before = manifest(entry("f", b"x"), entry("gone", b""), entry("kept", b"x"))
    after = manifest(entry("f", b"y"), entry("new", b""), entry("kept", b"y"))
    changes = compare(before, after)
    done = [change for change in changes.all if change.name != b"kept"]
    assert names(compare(advance(before, done), after).all) == [b"kept"]


@pytest.mark.parametrize(
    "name", [b"", b"/a", b"../a", b"a/../b", b"a//b", b"./a", b"a/", b"a\0b", b"x" * 300]
)
def test_a_guests_name_that_is_none_is_refused(name: bytes) -> None:
    with pytest.raises(PathRefused):
        collect([entry(name)])


def test_a_name_sent_twice_is_refused() -> None:
    with pytest.raises(PathRefused, match="twice"):
        manifest(entry("a"), entry("a"))


def test_a_tree_without_end_is_refused() -> None:
    with pytest.raises(PathRefused, match="more than 5"):
        collect((entry(f"f{number}") for number in range(10**9)), max_entries=5)


def test_a_baseline_can_be_written_down() -> None:
    before = manifest(entry(b"\xff\n", b"x"), link("l", b"\xfe"), directory("d"))
    after = parse_manifest(manifest_lines(before))
    assert not compare(before, after)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b"7", b'{"name": 7}', b"\xff"])
def test_a_damaged_baseline_is_told(line: bytes) -> None:
    with pytest.raises(StateDamaged):
        parse_manifest([line])


def show(
    old: dict[bytes, bytes], new: dict[bytes, bytes], *, is_terminal: bool = True, mode: int = 0o644
) -> str:
    changes = compare(
        manifest(*(entry(name, data) for name, data in old.items())),
        manifest(*(entry(name, data, mode=mode) for name, data in new.items())),
    )
    lines = render_diff(
        changes,
        lambda name, entry: old[name],
        lambda name, size: new[name][:size],
        is_terminal=is_terminal,
    )
    return "".join(lines)


def test_text_is_shown_as_a_unified_diff() -> None:
    assert show({b"f": b"a\nb\nc\n"}, {b"f": b"a\nB\nc\n"}) == (
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


def test_added_and_deleted_files_are_shown_whole() -> None:
    assert "new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n" in show(
        {}, {b"f": b"x\n"}
    )
    assert "deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" in show(
        {b"f": b"x\n"}, {}
    )


def test_binary_files_are_told_by_size() -> None:
    shown = show({b"f": b"\0" * 12_000}, {b"f": b"\0" * 14_000})
    assert "Binary file f changed (12 kB → 14 kB)\n" in shown


def test_large_files_are_told_by_size_and_not_fetched() -> None:
    big = entry("f", b"x" * (MAX_TEXT_BYTES + 1))

    def never(name: bytes, size: int) -> bytes:
        raise AssertionError

    lines = render_diff(
        compare(manifest(), manifest(big)), lambda n, e: b"", never, is_terminal=True
    )
    assert "Binary file f added (1.05 MB)\n" in list(lines)


def test_modes_are_shown() -> None:
    shown = show({b"f": b"x"}, {b"f": b"x"}, mode=0o755)
    assert shown == "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"


def test_link_targets_are_shown() -> None:
    changes = compare(manifest(link("l", b"old")), manifest(link("l", b"/etc/\x1b[2J")))
    shown = "".join(render_diff(changes, lambda n, e: b"", lambda n, s: b"", is_terminal=True))
    assert "-old\n" in shown
    assert "+/etc/\\x1b[2J\n" in shown


def test_a_changed_type_is_shown_as_both() -> None:
    changes = compare(manifest(entry("x", b"text\n")), manifest(link("x", b"target")))
    shown = "".join(
        render_diff(changes, lambda n, e: b"text\n", lambda n, s: b"", is_terminal=True)
    )
    assert "deleted file mode 100644" in shown
    assert "new file mode 120000" in shown


def test_directories_are_named() -> None:
    before = manifest(directory("gone"), directory("closed"), directory("was"))
    after = manifest(directory("new"), directory("closed", 0o700), entry("was", b"x\n"))
    lines = render_diff(
        compare(before, after), lambda n, e: b"", lambda n, s: b"x\n", is_terminal=True
    )
    shown = "".join(lines)
    assert "New directory new/\n" in shown
    assert "Deleted directory gone/\n" in shown
    assert "Directory closed/: mode 0755 → 0700\n" in shown
    assert "was was a directory, is a file\n" in shown


def test_a_host_file_that_changed_is_called_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"the host's own\n")
    changes = compare(manifest(entry("f", b"old\n")), manifest(entry("f", b"new\n")))
    with HostTree(tmp_path) as tree:
        shown = "".join(render_diff(changes, tree.read, lambda n, s: b"new\n", is_terminal=True))
    assert "Conflict: f was changed on the host" in shown
    assert "+new" not in shown


def test_the_hosts_side_is_never_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"old\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/f").symlink_to("../secret")
    with HostTree(tmp_path / "tree") as tree:
        assert tree.read(b"f", entry("f", b"old\n")) is None


def test_a_guest_file_that_changes_meanwhile_is_not_shown() -> None:
    changes = compare(manifest(), manifest(entry("f", b"announced")))
    lines = render_diff(changes, lambda n, e: b"", lambda n, s: b"another", is_terminal=True)
    assert "f is being changed in the sandbox just now\n" in list(lines)


def test_a_guest_file_that_vanished_does_not_end_the_diff() -> None:
    def gone(name: bytes, size: int) -> bytes:
        raise GuestRefused("not-found", "no such file")

    changes = compare(manifest(), manifest(entry("f", b"x"), directory("z")))
    assert (
        list(render_diff(changes, lambda n, e: b"", gone, is_terminal=True))[-1]
        == "New directory z/\n"
    )


@given(name=st.binary(min_size=1, max_size=20), data=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_nothing_a_guest_writes_steers_the_terminal(name: bytes, data: bytes) -> None:
    name = name.replace(b"/", b"_").replace(b"\0", b"_")
    if name in (b".", b".."):
        return
    shown = show({}, {name: data})
    assert all(c in "\n\t" or c.isprintable() for c in shown)


@pytest.mark.parametrize(
    "text", ["\x1b]0;owned\x07", "\x9b2J", "a\rb", "\u202egpj.exe", "\u2066", "\x08"]
)
def test_known_tricks_are_escaped(text: str) -> None:
    shown = show({}, {text.encode(): text.encode()})
    assert text not in shown


def test_a_name_cannot_pass_for_lines_of_the_diff() -> None:
    name = b"x\n--- a/f\n+++ b/etc/passwd"
    for is_terminal in (True, False):
        shown = show({}, {name: b"y\n"}, is_terminal=is_terminal)
        assert "\n+++ b/etc/passwd\n" not in shown


_TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"c", b"\xff", b"\x0c", b"\r", b"-- x", b"++ y"]), max_size=12
)


@given(old=_TEXTS, new=_TEXTS, old_end=st.booleans(), new_end=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_piped_diff_can_be_applied_by_git(
    old: list[bytes],
    new: list[bytes],
    old_end: bool,
    new_end: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    before = b"\n".join(old) + (b"\n" if old_end else b"")
    after = b"\n".join(new) + (b"\n" if new_end else b"")
    if before == after:
        return
    base = tmp_path_factory.mktemp("patch")
    (base / "f").write_bytes(before)
    diff = show({b"f": before}, {b"f": after}, is_terminal=False)
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"],
        input=diff.encode("utf-8", "surrogateescape"),
        cwd=base,
        check=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(base.parent)},
    )
    assert (base / "f").read_bytes() == after


def test_lines_chosen_to_be_slow_are_shown_as_replaced_at_once() -> None:
    old = b"".join(b"%d\n" % (number % 100) for number in range(20_000))
    new = b"".join(b"%d\n" % (number % 99) for number in range(20_000))
    shown = show({b"f": old}, {b"f": new})
    assert "@@ -1,20000 +1,20000 @@\n" in shown
