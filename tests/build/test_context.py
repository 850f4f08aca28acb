"""The context: what is in it, what .dockerignore takes out, and that nothing outside of it can be had."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.build.context import Context, parse_ignore
from crucible.build.items import Item, matches, parts_of
from crucible.errors import BadSetting, PathRefused
from crucible.images.layers.headers import Kind
from crucible.sandbox.workspace.credentials import Withheld


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    inside = tmp_path / "context"
    (inside / "src" / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("of the host")
    for name in ("a.txt", "b.txt", "src/main.py", "src/deep/x.pyc", "src/deep/y", "[odd]"):
        (inside / name).write_text(name)
    return inside


def names(context: Context, *pattern: str) -> list[str]:
    found = [
        b"/".join((*parts, *item.parts)).decode()
        for each in pattern
        for parts in matches(context, each)
        for item in context.items(parts)
    ]
    return sorted(found)


@pytest.mark.parametrize(
    "pattern, wanted",
    [
        ("a.txt", ["a.txt"]),
        ("/a.txt", ["a.txt"]),
        ("./src/../a.txt", None),
        ("*.txt", ["a.txt", "b.txt"]),
        ("?.txt", ["a.txt", "b.txt"]),
        ("[b-z].txt", ["b.txt"]),
        ("[^b].txt", ["a.txt"]),
        ("*/main.py", ["src/main.py"]),
        ("[odd]", ["[odd]"]),
        ("src/deep", ["src/deep", "src/deep/x.pyc", "src/deep/y"]),
        ("nothing", None),
        ("*.none", None),
        ("../secret", None),
        ("src/../../secret", None),
        ("/../../etc/passwd", None),
    ],
)
def test_sources_name_what_is_in_the_context_only(
    tree: Path, pattern: str, wanted: list[str] | None
) -> None:
    context = Context(tree)
    if wanted is None:
        with pytest.raises(PathRefused):
            names(context, pattern)
    else:
        assert names(context, pattern) == wanted
    context.close()


def test_a_link_is_copied_as_a_link_and_never_followed(tree: Path) -> None:
    (tree / "out").symlink_to("../secret")
    (tree / "etc").symlink_to("/etc")
    context = Context(tree)
    [item] = context.items((b"out",))
    assert (item.kind, item.target, b"".join(item.read())) == (Kind.SYMLINK, b"../secret", b"")
    for path in ("etc/passwd", "etc/*"):
        with pytest.raises(PathRefused):
            names(context, path)
    context.close()


def test_a_file_that_becomes_a_link_meanwhile_is_not_followed(tree: Path) -> None:
    context = Context(tree)
    [item] = context.items((b"a.txt",))
    (tree / "a.txt").unlink()
    (tree / "a.txt").symlink_to("../secret")
    with pytest.raises(OSError, match="symbolic links"):
        b"".join(item.read())
    context.close()


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(tree: Path) -> None:
    context = Context(tree)
    [item] = context.items((b"src", b"main.py"))
    (tree / "src").rename(tree / "was")
    (tree / "src").symlink_to("/etc")
    with pytest.raises(PathRefused):
        b"".join(item.read())
    context.close()


def test_a_file_that_is_cut_short_meanwhile_is_an_error(tree: Path) -> None:
    context = Context(tree)
    [item] = context.items((b"a.txt",))
    (tree / "a.txt").write_text("")
    with pytest.raises(PathRefused, match="cut short"):
        b"".join(item.read())
    context.close()


def test_pipes_and_sockets_are_left_out(tree: Path) -> None:
    os.mkfifo(tree / "src" / "pipe")
    context = Context(tree)
    assert "src/pipe" not in names(context, "src")
    context.close()


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("", ["a.txt", "b.txt", "src", "src/deep", "src/deep/x.pyc", "src/deep/y", "src/main.py"]),
        ("*.txt", ["src", "src/deep", "src/deep/x.pyc", "src/deep/y", "src/main.py"]),
        ("src", ["a.txt", "b.txt"]),
        ("src/\n# no\n!a.txt", ["a.txt", "b.txt"]),
        ("**/*.pyc", ["a.txt", "b.txt", "src", "src/deep", "src/deep/y", "src/main.py"]),
        ("*\n!src/main.py", ["src/main.py"]),
        ("**\n!src/deep\nsrc/deep/y", ["src/deep", "src/deep/x.pyc"]),
        ("/src/deep\n", ["a.txt", "b.txt", "src", "src/main.py"]),
        ("main.py", ["a.txt", "b.txt", "src", "src/deep", "src/deep/x.pyc", "src/deep/y", "src/main.py"]),
    ],
)  # fmt: skip
def test_what_dockerignore_names_is_not_there(tree: Path, lines: str, wanted: list[str]) -> None:
    (tree / "[odd]").unlink()
    (tree / ".dockerignore").write_text(lines)
    context = Context(tree)
    found = [name for name in names(context, ".") if name not in ("", ".dockerignore")]
    assert found == wanted
    context.close()


def test_an_ignored_file_cannot_be_named(tree: Path) -> None:
    (tree / ".dockerignore").write_text("a.txt")
    context = Context(tree)
    with pytest.raises(PathRefused):
        names(context, "a.txt")
    context.close()


def test_a_dockerignore_that_is_a_link_or_huge_is_refused(tree: Path) -> None:
    (tree / ".dockerignore").symlink_to("../secret")
    with pytest.raises(PathRefused):
        Context(tree)
    (tree / ".dockerignore").unlink()
    (tree / ".dockerignore").write_bytes(b"x\n" * (1 << 20))
    with pytest.raises(BadSetting):
        Context(tree)


def test_directories_have_a_depth(tree: Path) -> None:
    (tree / "/".join(["d"] * 150)).mkdir(parents=True)
    context = Context(tree)
    with pytest.raises(PathRefused, match="deep"):
        names(context, "d")
    context.close()


@given(st.binary(max_size=100))
def test_any_dockerignore_is_read_or_refused(data: bytes) -> None:
    try:
        patterns = parse_ignore(data)
    except BadSetting:
        return
    for pattern in patterns:
        pattern.expression.fullmatch(b"some/path/of/it")


@given(st.text(max_size=40))
def test_any_source_stays_inside(text: str) -> None:
    try:
        assert b".." not in parts_of(text)
    except PathRefused:
        return


def test_an_item_without_bytes_reads_as_nothing() -> None:
    item = Item(parts=(), kind=Kind.DIRECTORY, mode=0, uid=0, gid=0, mtime_s=0)
    assert list(item.read()) == []


@pytest.mark.parametrize("ignore", ["", "!.env\n!.ssh\n!src/.aws\n*.none\n"])
def test_what_is_withheld_is_not_there_however_it_is_named(tree: Path, ignore: str) -> None:
    (tree / ".dockerignore").write_text(ignore)
    for name in (".env", ".ssh/config", "src/.aws/credentials", "src/key.pem"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("secret")
    withheld = Withheld()
    with closing(Context(tree, withheld=withheld)) as context:
        found = names(context, ".")
        assert not [
            name for name in found if name.endswith((".env", "config", "credentials", "key.pem"))
        ]
        assert "src/main.py" in found
        for pattern in (".env", ".e*", ".ssh", ".ssh/config", "*/config", "src/.aws", "src/*.pem"):
            with pytest.raises(PathRefused, match="There is no"):
                names(context, pattern)
    assert ".env" in withheld.told()
