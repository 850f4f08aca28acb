"""Mounts are copies to places that may be replaced, from where they were said to be."""

from __future__ import annotations

import contextlib
import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting, PathRefused
from crucible.sandbox.mounting import check_source, readable_by_all
from crucible.sandbox.mounts import MOST_MOUNTS, Mount, check_mounts, parse_mount, resolved
from crucible.sandbox.service.audit import policy_of
from crucible.sandbox.spec import SandboxSpec, parse_spec


@pytest.mark.parametrize(
    "text, mount",
    [
        ("/a:/b", Mount("/a", "/b", "ro")),
        ("./a:/b:ro", Mount("./a", "/b", "ro")),
        ("a:/b:rw", Mount("a", "/b", "rw")),
        ("/with:colon:/b//c/", Mount("/with:colon", "/b/c", "ro")),
        ("/home/me:~:home", Mount("/home/me", "~", "home")),
    ],
)
def test_a_mount_is_read(text: str, mount: Mount) -> None:
    assert parse_mount(text) == mount
    assert parse_mount(str(mount)) == mount


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "/a", "/a:", ":/b", "/a:b", "/a:/", "/a:/../etc", "/a:/b/./c", "/a:/etc", "/a:/usr/",
        "/a:/proc/x", "/a:/tmp/x", "/a:/dev", "/a:/run/x", "/a:~", "/a:~:rw", "/a:/b:home", "/a\0:/b",
        "/a:/b:wr", "x" * 5000 + ":/b",
    ],
)  # fmt: skip
def test_what_is_no_mount_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_mount(text)


@given(st.text(max_size=40) | st.from_regex(r"[a:/.~]{1,12}(:rw|:ro|:home)?", fullmatch=True))
def test_whatever_it_is_it_is_a_mount_or_refused(text: str) -> None:
    with contextlib.suppress(BadSetting):
        mount = parse_mount(text)
        assert parse_mount(str(mount)) == mount
        assert mount.target == "~" or (
            mount.target.startswith("/") and ".." not in mount.target.split("/")
        )


@pytest.mark.parametrize(
    "texts",
    [["/a:/b", "/c:/b"], ["/a:/b", "/c:/b/d"], ["/a:/b/d", "/c:/b"], ["a:/b"], ["/a:/b"] * (MOST_MOUNTS + 1),
     ["a:/b:volume", "a:/c:volume"], ["a:/b:volume-ro", "a:/c:volume"]],
)  # fmt: skip
def test_mounts_that_do_not_go_together_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadSetting):
        check_mounts(texts)
    with pytest.raises(BadSetting):
        parse_spec({"mounts": texts})


def test_a_volume_may_be_read_at_two_places() -> None:
    check_mounts(["a:/b:volume-ro", "a:/c:volume-ro"])


def test_a_volume_that_was_given_as_a_mount_is_recognised() -> None:
    with pytest.raises(BadSetting) as refused:
        resolved(parse_mount("nosuch:/data"))
    assert refused.value.hint == "If a volume is meant: --volume nosuch:/data"


@pytest.mark.parametrize("mounts", ["/a:/b", [1], [["/a:/b"]], None])
def test_a_client_must_send_a_list_of_texts(mounts: object) -> None:
    with pytest.raises(BadSetting):
        parse_spec({"mounts": mounts})


def test_mounts_are_in_the_record_and_the_audit_line() -> None:
    spec = parse_spec({"mounts": ["/a:/b:rw"], "include_credentials": True})
    assert spec == SandboxSpec(mounts=("/a:/b:rw",), include_credentials=True)
    told = json.loads(json.dumps(policy_of(spec)))
    assert told["mounts"] == ["/a:/b:rw"]
    assert told["include_credentials"] is True


def test_a_source_is_taken_through_its_links_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    mount = resolved(parse_mount("link:/data"), str(tmp_path))
    assert mount.source == str(tmp_path / "real")
    assert check_source(mount) == tmp_path / "real"


def test_a_source_that_has_become_a_link_since_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    source = tmp_path / "source"
    source.mkdir()
    mount = resolved(parse_mount(f"{source}:/data"))
    source.rmdir()
    with pytest.raises(PathRefused, match="not there any more"):
        check_source(mount)
    source.symlink_to(tmp_path / "secrets")
    with pytest.raises(PathRefused, match="symbolic link"):
        check_source(mount)


def test_only_files_and_directories_can_be_sources_and_only_directories_writable_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    assert resolved(parse_mount("file:/data"), str(tmp_path)).source == str(tmp_path / "file")
    with pytest.raises(BadSetting, match="only directories"):
        resolved(parse_mount("file:/data:rw"), str(tmp_path))
    for source in ("nosuch", "/dev/null"):
        with pytest.raises(BadSetting, match="neither"):
            resolved(parse_mount(f"{source}:/data"), str(tmp_path))


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o777, 0o6755, 0o000])
def test_what_is_read_only_can_be_read_by_all_and_written_by_none(mode: int) -> None:
    for kind in (stat.S_IFREG, stat.S_IFDIR):
        shown = readable_by_all(kind | mode)
        assert stat.S_IFMT(shown) == kind
        assert shown & 0o444 == 0o444
        assert not shown & 0o7022
    assert readable_by_all(stat.S_IFDIR) & 0o111 == 0o111
