"""A sandbox's changes reach the host's directory, and nothing else does."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from crucible.errors import CrucibleError, GuestGone, GuestRefused
from crucible.sandbox.session import Entry, EntryType
from crucible.sandbox.workspace.applying import Applied, ApplyRules, apply_changes, stays_inside
from crucible.sandbox.workspace.changes import compare
from crucible.sandbox.workspace.manifest import collect

Tree = dict[str, "bytes | Entry"]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Path]:
    """A host directory with something beside it that must stay untouched."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("untouched")
    (tmp_path / "work").mkdir()
    yield tmp_path / "work"
    assert (tmp_path / "outside/victim").read_text() == "untouched"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["victim"]
    assert not list((tmp_path / "work").rglob(".crucible-new-*"))


def entry(
    name: str,
    data: bytes = b"",
    *,
    type: EntryType = "file",
    mode: int = 0o644,
    target: bytes = b"",
) -> Entry:
    return Entry(
        name=name.encode(),
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


def link(name: str, target: str) -> Entry:
    return entry(name, type="symlink", mode=0o777, target=target.encode())


def apply(
    host: Path,
    before: Tree,
    after: Tree,
    *,
    rules: ApplyRules | None = None,
    sent: dict[str, bytes] | None = None,
) -> Applied:
    """Applies the way from one tree to another; files are given as their bytes."""

    def entries(tree: Tree) -> list[Entry]:
        return [entry(name, e) if isinstance(e, bytes) else e for name, e in tree.items()]

    def fetch(name: bytes) -> Iterator[bytes]:
        data = (sent or {}).get(name.decode(), after.get(name.decode()))
        assert isinstance(data, bytes)
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    changes = compare(collect(entries(before)), collect(entries(after)))
    return apply_changes(host, changes, fetch, rules=rules or ApplyRules())


def test_files_are_added_changed_and_deleted(host: Path) -> None:
    (host / "edited").write_bytes(b"old")
    (host / "gone").write_bytes(b"gone")
    applied = apply(
        host, {"edited": b"old", "gone": b"gone"}, {"edited": b"new" * 1000, "new": b"n"}
    )
    assert not applied.refused
    assert sorted(path.name for path in host.iterdir()) == ["edited", "new"]
    assert (host / "edited").read_bytes() == b"new" * 1000


def test_trees_are_made_and_removed(host: Path) -> None:
    (host / "old/deep").mkdir(parents=True)
    (host / "old/deep/f").write_bytes(b"x")
    before: Tree = {"old": directory("old"), "old/deep": directory("old/deep"), "old/deep/f": b"x"}
    after: Tree = {"new": directory("new"), "new/in": directory("new/in", 0o500), "new/in/f": b"y"}
    assert not apply(host, before, after).refused
    assert (host / "new/in/f").read_bytes() == b"y"
    assert stat.S_IMODE((host / "new/in").stat().st_mode) == 0o500
    assert not (host / "old").exists()


def test_applying_twice_changes_nothing(host: Path) -> None:
    after: Tree = {"f": b"x", "d": directory("d"), "l": link("l", "f")}
    assert not apply(host, {}, after).refused
    inode = (host / "f").stat().st_ino
    assert not apply(host, {}, after).refused
    assert (host / "f").stat().st_ino == inode


def test_types_change_both_ways(host: Path) -> None:
    (host / "a").write_bytes(b"x")
    (host / "b").mkdir()
    (host / "b/in").write_bytes(b"y")
    (host / "c").symlink_to("a")
    before: Tree = {"a": b"x", "b": directory("b"), "b/in": b"y", "c": link("c", "a")}
    after: Tree = {"a": directory("a"), "a/in": b"z", "b": b"file", "c": directory("c")}
    assert not apply(host, before, after).refused
    assert (host / "a/in").read_bytes() == b"z"
    assert (host / "b").read_bytes() == b"file"
    assert (host / "c").is_dir()
    assert not (host / "c").is_symlink()


def test_modes_follow_the_sandbox_without_setuid(host: Path) -> None:
    (host / "f").write_bytes(b"x")
    before: Tree = {"f": entry("f", b"x", mode=0o644)}
    after: Tree = {"f": entry("f", b"x", mode=0o6755)}
    assert not apply(host, before, after).refused
    assert stat.S_IMODE((host / "f").stat().st_mode) == 0o755


def test_a_new_file_never_gets_setuid(host: Path) -> None:
    changes = compare(collect([]), collect([entry("f", b"x", mode=0o4755)]))
    apply_changes(host, changes, lambda name: [b"x"])
    assert stat.S_IMODE((host / "f").stat().st_mode) == 0o755


def test_a_mode_the_sandbox_left_alone_stays_the_hosts(host: Path) -> None:
    (host / "f").write_bytes(b"x")
    (host / "f").chmod(0o600)
    assert not apply(host, {"f": b"x"}, {"f": b"y"}).refused
    assert stat.S_IMODE((host / "f").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "before, after",
    [({"f": b"old"}, {"f": b"new"}), ({}, {"f": b"new"}), ({"f": b"old"}, {})],
    ids=["edited", "added", "deleted"],
)
def test_what_the_host_changed_is_left_alone_unless_forced(
    host: Path, before: Tree, after: Tree
) -> None:
    (host / "f").write_bytes(b"mine")
    applied = apply(host, before, after)
    assert [refusal.change.name for refusal in applied.refused] == [b"f"]
    assert "changed on the host" in applied.refused[0].why
    assert (host / "f").read_bytes() == b"mine"
    assert not apply(host, before, after, rules=ApplyRules(force=True)).refused
    assert not (host / "f").exists() or (host / "f").read_bytes() == b"new"


def test_one_conflict_does_not_stop_the_others(host: Path) -> None:
    (host / "a").write_bytes(b"mine")
    applied = apply(host, {"a": b"old"}, {"a": b"new", "b": b"new"})
    assert [change.name for change in applied.done] == [b"b"]
    assert (host / "b").read_bytes() == b"new"


def test_a_forced_mode_does_not_bring_old_content_back(host: Path) -> None:
    (host / "f").write_bytes(b"mine")
    before: Tree = {"f": entry("f", b"x")}
    after: Tree = {"f": entry("f", b"x", mode=0o755)}
    assert apply(host, before, after).refused
    assert not apply(host, before, after, rules=ApplyRules(force=True)).refused
    assert (host / "f").read_bytes() == b"mine"


@pytest.mark.parametrize("name", [".ssh/authorized_keys", ".env", "deep/.aws/credentials"])
def test_nothing_comes_to_lie_among_credentials_that_were_left_out(host: Path, name: str) -> None:
    (host / name).parent.mkdir(parents=True, exist_ok=True)
    (host / ".env").write_text("mine")
    made: Tree = {name: b"evil"}
    for count in range(1, len(name.split("/"))):
        above = "/".join(name.split("/")[:count])
        made = {above: directory(above), **made}
    applied = apply(host, {}, made)
    assert name in {refusal.change.name.decode() for refusal in applied.refused}
    assert (host / ".env").read_text() == "mine"
    assert name == ".env" or not (host / name).exists()


def test_a_sandbox_may_make_the_first_of_what_the_host_has_none_of(host: Path) -> None:
    applied = apply(host, {}, {".env": b"A=1\n"})
    assert not applied.refused
    assert (host / ".env").read_bytes() == b"A=1\n"


def test_a_directory_with_unknown_files_is_never_removed(host: Path) -> None:
    (host / "d").mkdir()
    (host / "d/mine").write_bytes(b"mine")
    for after in ({}, {"d": b"file"}):
        applied = apply(host, {"d": directory("d")}, dict(after), rules=ApplyRules(force=True))
        assert applied.refused
        assert (host / "d/mine").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["link/victim", "link/new", "link/deep/new"])
def test_nothing_is_written_through_a_link_of_the_host(host: Path, name: str) -> None:
    (host / "link").symlink_to("../outside")
    applied = apply(host, {}, {name: b"owned"}, rules=ApplyRules(force=True))
    assert applied.refused


def test_nothing_is_deleted_through_a_link_of_the_host(host: Path) -> None:
    (host / "link").symlink_to("../outside")
    before: Tree = {"link": directory("link"), "link/victim": b"untouched"}
    assert apply(host, before, {}, rules=ApplyRules(force=True)).refused


def test_no_mode_is_changed_through_a_link_of_the_host(host: Path) -> None:
    victim = host.parent / "outside/victim"
    mode = victim.stat().st_mode
    (host / "f").symlink_to("../outside/victim")
    (host / "d").symlink_to("../outside")
    before: Tree = {"f": entry("f", b"untouched"), "d": directory("d")}
    after: Tree = {"f": entry("f", b"untouched", mode=0o777), "d": directory("d", 0o700)}
    assert len(apply(host, before, after, rules=ApplyRules(force=True)).refused) == 2
    assert victim.stat().st_mode == mode


def test_a_link_and_a_file_beneath_it_in_one_change_do_not_meet(host: Path) -> None:
    after: Tree = {"link": link("link", "../outside"), "link/victim": b"owned"}
    applied = apply(host, {}, after, rules=ApplyRules(allow_outside_links=True))
    assert [refusal.change.name for refusal in applied.refused] == [b"link/victim"]


@pytest.mark.parametrize(
    "name, target, is_inside",
    [
        ("l", "f", True),
        ("l", "d/f", True),
        ("d/l", "../f", True),
        ("d/l", "..", True),
        ("d/e/l", "../../f", True),
        ("l", ".", True),
        ("l", "/etc/passwd", False),
        ("l", "..", False),
        ("l", "../f", False),
        ("d/l", "../../f", False),
        ("l", "d/../../f", False),
        ("l", "d/../f", False),
        ("l", "./../f", False),
        ("l", "//etc", False),
    ],
)
def test_which_links_stay_inside(name: str, target: str, is_inside: bool) -> None:
    assert stays_inside(name.encode().split(b"/"), target.encode()) is is_inside


def test_a_link_that_leaves_the_workspace_is_refused_unless_allowed(host: Path) -> None:
    after: Tree = {"l": link("l", "/etc/passwd")}
    applied = apply(host, {}, after)
    assert "/etc/passwd" in applied.refused[0].why
    assert not (host / "l").is_symlink()
    assert not apply(host, {}, after, rules=ApplyRules(allow_outside_links=True)).refused
    assert (host / "l").readlink() == Path("/etc/passwd")


def test_a_chain_of_links_cannot_climb_out(host: Path) -> None:
    after: Tree = {
        "d": directory("d"),
        "d/up": link("d/up", ".."),
        "escape": link("escape", "d/up/../outside/victim"),
    }
    applied = apply(host, {}, after)
    assert [refusal.change.name for refusal in applied.refused] == [b"escape"]


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/post-checkout",
        ".GIT/config",
        "sub/.git/config",
        ".git/modules/m/hooks/x",
        ".git/info/attributes",
    ],
)
def test_what_git_would_obey_is_refused_unless_allowed(host: Path, name: str) -> None:
    parts = name.split("/")
    after: Tree = {
        "/".join(parts[:count]): directory("/".join(parts[:count]))
        for count in range(1, len(parts))
    }
    after[name] = b"evil"
    applied = apply(host, {}, after)
    assert name.encode() in [refusal.change.name for refusal in applied.refused]
    assert not (host / name).exists()
    assert not apply(host, {}, after, rules=ApplyRules(allow_git_control=True)).refused


def test_a_git_pointer_file_is_refused(host: Path) -> None:
    assert apply(host, {}, {".git": b"gitdir: evil"}).refused


@pytest.mark.parametrize(
    "name", [".git/refs/heads/hooks", ".git/objects/ab/config", "config", "hooks/x"]
)
def test_ordinary_files_of_a_repository_pass(host: Path, name: str) -> None:
    parts = name.split("/")
    after: Tree = {
        "/".join(parts[:count]): directory("/".join(parts[:count]))
        for count in range(1, len(parts))
    }
    after[name] = b"x"
    assert not apply(host, {}, after).refused


@pytest.mark.parametrize("sent", [b"another", b"x" * 100_000, b""])
def test_only_the_content_that_was_announced_is_taken(host: Path, sent: bytes) -> None:
    (host / "f").write_bytes(b"old")
    applied = apply(host, {"f": b"old"}, {"f": b"announced"}, sent={"f": sent})
    assert "changed in the sandbox" in applied.refused[0].why
    assert (host / "f").read_bytes() == b"old"


def test_a_file_the_guest_does_not_hand_out_is_refused_alone(host: Path) -> None:
    def fetch(name: bytes) -> Iterator[bytes]:
        if name == b"a":
            raise GuestRefused("not-found", "gone\x1b[2J")
        yield b"x"

    changes = compare(collect([]), collect([entry("a", b"x"), entry("b", b"x")]))
    applied = apply_changes(host, changes, fetch)
    assert [change.name for change in applied.done] == [b"b"]
    assert "\x1b" not in applied.refused[0].why


def test_sockets_and_devices_are_refused(host: Path) -> None:
    assert apply(host, {}, {"s": entry("s", type="other")}).refused


def test_a_second_name_outside_is_not_written_into(host: Path) -> None:
    os.link(host.parent / "outside/victim", host / "f")
    assert not apply(host, {"f": b"untouched"}, {"f": b"owned"}).refused
    assert (host / "f").read_bytes() == b"owned"


def test_a_refusal_that_came_over_a_connection_is_understood_too(host: Path) -> None:
    class Elsewhere(CrucibleError):
        code = "guest-refused"

    def fetch(name: bytes) -> Iterator[bytes]:
        raise Elsewhere("gone")

    changes = compare(collect([]), collect([entry("a", b"x")]))
    assert len(apply_changes(host, changes, fetch).refused) == 1


def test_a_sandbox_that_died_ends_it_all(host: Path) -> None:
    def fetch(name: bytes) -> Iterator[bytes]:
        raise GuestGone("box", "it was stopped")

    changes = compare(collect([]), collect([entry("a", b"x")]))
    with pytest.raises(GuestGone):
        apply_changes(host, changes, fetch)
