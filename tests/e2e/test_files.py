"""Files between the host and a sandbox that is not to be trusted: `cp`, `create --dir`, `diff`, `apply`."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.e2e.test_terminal import Terminal

pytestmark = pytest.mark.vm

ODD_NAMES = [
    b"plain", b"two words", b"-dash", b"line\nbreak", b"tab\there", b"quote'\"", b"\xff\xfe not text",
    "snö ☃".encode(), b"esc\x1b[31m", b"back\\slash", b"n" * 255, b"*?[a]",
]  # fmt: skip


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(module_home)
    command_line.ok("create", "box", "--start")
    yield command_line
    for name in command_line.ok("list", "--quiet").split():
        command_line.ok("rm", "--force", name)


def inside(crucible: CommandLine, script: str, name: str = "box") -> str:
    return crucible.ok("exec", name, "sh", "-c", script)


def picture(top: Path) -> dict[bytes, tuple[int, bytes]]:
    """Everything beneath a directory: type and mode, contents or target."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for directory, names, files in os.walk(os.fsencode(top)):
        for name in (*names, *files):
            path = directory + b"/" + name
            mode = os.lstat(path).st_mode
            content = b""
            if stat.S_ISLNK(mode):
                content, mode = os.fsencode(Path(os.fsdecode(path)).readlink()), stat.S_IFLNK
            elif stat.S_ISREG(mode):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(top))] = (mode, content)
    return found


def plant(top: Path) -> None:
    (top / "deep" / "er").mkdir(parents=True)
    (top / "deep" / "empty").mkdir(mode=0o700)
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "secret").write_bytes(os.urandom(100_000))
    (top / "secret").chmod(0o600)
    (top / "relative").symlink_to("run.sh")
    (top / "dangling").symlink_to("/no/such/place")
    (top / "upwards").symlink_to("../..")
    for number, name in enumerate(ODD_NAMES):
        (top / "deep" / os.fsdecode(name)).write_text(str(number))
    path = top / "deep"
    for _ in range(3):
        path = path / ("d" * 200)
        path.mkdir()
    (path / "far").write_text("away")


def test_a_tree_comes_back_as_it_went(crucible: CommandLine, tmp_path: Path) -> None:
    plant(tmp_path / "tree")
    crucible.ok("cp", tmp_path / "tree", "box:/tmp/tree")
    crucible.ok("cp", "box:/tmp/tree", tmp_path / "back")
    assert picture(tmp_path / "back") == picture(tmp_path / "tree")
    assert inside(crucible, "readlink /tmp/tree/dangling; stat -c %a /tmp/tree/secret") == (
        "/no/such/place\n600\n"
    )


def test_an_existing_directory_is_copied_into_and_any_other_name_becomes_the_copy(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    inside(crucible, "rm -rf /tmp/there; mkdir /tmp/there")
    crucible.ok("cp", tmp_path / "a", "box:/tmp/there")
    crucible.ok("cp", tmp_path / "a", "box:/tmp/there/renamed")
    crucible.ok("cp", f"{tmp_path}/a/.", "box:/tmp/there")
    found = inside(crucible, "cd /tmp/there && find . -type f | sort")
    assert found.split() == ["./a/file", "./file", "./renamed/file"]
    (tmp_path / "back").mkdir()
    crucible.ok("cp", "box:/tmp/there/a", tmp_path / "back")
    crucible.ok("cp", "box:/tmp/there/a", tmp_path / "back" / "renamed")
    crucible.ok("cp", "box:/tmp/there/a/file", tmp_path / "back" / "single")
    assert sorted(picture(tmp_path / "back")) == [
        b"a", b"a/file", b"renamed", b"renamed/file", b"single"
    ]  # fmt: skip


def test_a_relative_path_begins_at_the_working_directory(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("here")
    crucible.ok("cp", tmp_path / "file", "box:relative")
    assert inside(crucible, "cat /workspace/relative") == "here"


@pytest.mark.parametrize(
    "words, reason",
    [
        (("box:/no/such", "."), b"does not exist"),
        (("/no/such", "box:/tmp"), b"cannot be read"),
        (("box:/etc/passwd", "/no/such/directory/file"), b"is not a directory"),
        (("box:/tmp", "box:/var"), b"Both paths"),
        (("a", "b"), b"Neither path"),
        (("nobody:/tmp", "."), b"There is no sandbox"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    crucible: CommandLine, tmp_path: Path, words: tuple[str, str], reason: bytes
) -> None:
    refused = crucible("cp", *words, cwd=tmp_path)
    assert refused.returncode in (125, 126)
    assert reason in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_links_in_a_copy_lead_nothing_out_of_the_target(
    crucible: CommandLine, tmp_path: Path
) -> None:
    """What the guest sends first as a link and then as a directory does not pass through the link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    inside(
        crucible,
        f"rm -rf /tmp/trap; mkdir -p /tmp/trap; cd /tmp/trap; ln -s {outside} absolute;"
        "ln -s ../outside relative; ln -s / root; mkdir real; echo x > real/file",
    )
    target = tmp_path / "target"
    target.mkdir()
    # The host had the very names before, as links that lead out.
    (target / "trap").mkdir()
    (target / "trap" / "real").symlink_to(outside)
    crucible("cp", "box:/tmp/trap", target)
    assert list(outside.iterdir()) == []
    crucible.ok("cp", "box:/tmp/trap", tmp_path / "fresh")
    assert (tmp_path / "fresh" / "absolute").readlink() == outside
    assert list(outside.iterdir()) == []


def test_a_tree_that_changes_under_the_copy_writes_nothing_outside(
    crucible: CommandLine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    inside(
        crucible,
        "rm -rf /tmp/race; mkdir -p /tmp/race/x; head -c 3000000 /dev/zero > /tmp/race/x/f",
    )
    script = (
        f"cd /tmp/race; while :; do mv x y 2>/dev/null; ln -sfn {shlex.quote(str(outside))} x; "
        "rm -f x; mv y x 2>/dev/null; done"
    )
    crucible.ok("exec", "--detach", "box", "sh", "-c", script)
    for number in range(4):
        crucible("cp", "box:/tmp/race", tmp_path / f"copy{number}")
    inside(crucible, "pkill -f [r]ace || true")
    assert list(outside.iterdir()) == []


def test_links_in_the_guest_do_not_redirect_what_is_copied_in(
    crucible: CommandLine, tmp_path: Path
) -> None:
    """They are the guest's own affair: what matters is that nothing of the host is touched."""
    (tmp_path / "file").write_text("new")
    inside(crucible, "rm -rf /tmp/links; mkdir /tmp/links; ln -s /etc/passwd /tmp/links/file")
    crucible("cp", tmp_path / "file", "box:/tmp/links/")
    assert inside(crucible, "head -c 4 /etc/passwd") == "root"


@pytest.fixture
def project(
    crucible: CommandLine, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A directory, and a sandbox `work` made from it."""
    directory = tmp_path / "project"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "main.py").write_text("print('one')\n")
    (directory / "gone").write_text("x\n")
    (directory / "same").write_text("same\n")
    (directory / "run.sh").write_text("#!/bin/sh\n")
    (directory / ".crucibleignore").write_text("private\n")
    (directory / "private").write_text("stays at home")
    crucible.ok("create", "work", "--dir", directory, "--start")
    yield directory
    crucible.ok("rm", "--force", "work")


def test_apply_writes_exactly_the_changes(crucible: CommandLine, project: Path) -> None:
    assert crucible.ok("diff", "work") == ""
    before = picture(project)
    inside(
        crucible,
        "echo \"print('two')\" > src/main.py; rm gone; mkdir new; echo hi > new/file;"
        "chmod 755 run.sh; ln -s src/main.py link; printf '\\000\\001' > binary",
        "work",
    )
    shown = crucible.ok("diff", "work")
    assert "-print('one')\n+print('two')\n" in shown
    assert json.loads(crucible.ok("diff", "--json", "work")) == [
        {"path": "binary", "change": "added"},
        {"path": "gone", "change": "deleted"},
        {"path": "link", "change": "added"},
        {"path": "new", "change": "added"},
        {"path": "new/file", "change": "added"},
        {"path": "run.sh", "change": "mode"},
        {"path": "src/main.py", "change": "modified"},
    ]
    assert picture(project) == before
    crucible.ok("apply", "work")
    after = picture(project)
    assert after[b"src/main.py"][1] == b"print('two')\n"
    assert after[b"new/file"][1] == b"hi\n"
    assert after[b"link"] == (stat.S_IFLNK, b"src/main.py")
    assert after[b"binary"][1] == b"\0\1"
    assert after[b"run.sh"][0] & 0o777 == 0o755
    assert b"gone" not in after
    assert after[b"private"] == before[b"private"]
    assert after[b"same"] == before[b"same"]
    assert crucible.ok("diff", "work") == ""


def test_a_file_that_changed_on_both_sides_is_left_alone(
    crucible: CommandLine, project: Path
) -> None:
    inside(crucible, "echo theirs > same; echo new > other", "work")
    (project / "same").write_text("ours\n")
    refused = crucible("apply", "work")
    assert refused.returncode == 126
    assert b"same was not written" in refused.stderr
    assert (project / "same").read_text() == "ours\n"
    assert (project / "other").read_text() == "new\n"
    assert crucible("apply", "--force", "work").returncode == 0
    assert (project / "same").read_text() == "theirs\n"


def test_apply_does_not_write_through_links(crucible: CommandLine, project: Path) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("untouched")
    inside(
        crucible,
        f"rm -rf src; ln -s {outside} src; ln -s ../outside/file up; mkdir sub; echo x > sub/file",
        "work",
    )
    # What the sandbox knows as a directory is meanwhile a link on the host.
    (project / "sub").symlink_to(outside)
    refused = crucible("apply", "--force", "work")
    assert refused.returncode == 126
    assert picture(outside) == {b"file": (picture(outside)[b"file"][0], b"untouched")}
    assert not (project / "up").is_symlink()
    assert not (project / "src").is_symlink()


def test_what_git_would_obey_is_left_alone(crucible: CommandLine, project: Path) -> None:
    inside(
        crucible, "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo fine > ok", "work"
    )
    refused = crucible("apply", "work")
    assert refused.returncode == 126
    assert not (project / ".git").exists() or not list((project / ".git").rglob("pre-commit"))
    assert (project / "ok").read_text() == "fine\n"


def test_hostile_names_do_not_steer_a_terminal(crucible: CommandLine, project: Path) -> None:
    script = "printf 'x\\033]0;owned\\007\\n' > \"$(printf 'a\\033[2Jb')\"; printf y > \"$(printf '\\377')\""
    inside(crucible, script, "work")
    for words in (("diff", "work"), ("diff", "--names", "work")):
        with Terminal(crucible, *words) as terminal:
            assert terminal.status() == 0
            assert b"\x1b" not in terminal.seen
            assert b"\x07" not in terminal.seen
            assert b"a" in terminal.seen
    done = crucible("apply", "work")
    assert (done.returncode, b"\x1b" in done.stderr) == (0, False)
    assert picture(project)[b"a\x1b[2Jb"][1] == b"x\x1b]0;owned\x07\n"
    assert picture(project)[b"\xff"][1] == b"y"


def test_the_diff_is_a_patch(crucible: CommandLine, project: Path) -> None:
    inside(crucible, "echo more >> src/main.py; echo new > added; rm gone", "work")
    patch = crucible("diff", "work").stdout
    copy = project.parent / "copy"
    subprocess.run(["cp", "-r", project, copy], check=True)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=copy, check=True)
    crucible.ok("apply", "work")
    assert picture(copy) == picture(project)


def test_a_fork_knows_what_it_was_made_from(crucible: CommandLine, project: Path) -> None:
    inside(crucible, "echo original > mine", "work")
    (name,) = crucible.ok("fork", "work").split()
    inside(crucible, "echo copy > mine", name)
    assert "+copy" in crucible.ok("diff", name)
    assert "+original" in crucible.ok("diff", "work")
    crucible.ok("rm", "--force", name)


def test_a_sandbox_without_a_directory_has_no_diff(crucible: CommandLine) -> None:
    refused = crucible("diff", "box")
    assert (refused.returncode, b"was not made from a directory" in refused.stderr) == (126, True)


def test_a_directory_that_is_none_is_refused_before_anything_is_made(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "nothing"):
        assert crucible("create", "never", "--dir", path).returncode == 126
    assert "never" not in crucible.ok("list", "--quiet").split()


def test_a_directory_that_went_before_the_first_start_leaves_the_sandbox_created(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    crucible.ok("create", "late", "--dir", tmp_path / "there")
    (tmp_path / "there").rmdir()
    refused = crucible("start", "late")
    assert (refused.returncode, b"is not a directory" in refused.stderr) == (126, True)
    assert json.loads(crucible.ok("inspect", "--json", "late"))["state"] == "created"
    (tmp_path / "there").mkdir()
    crucible.ok("start", "late")
    crucible.ok("rm", "--force", "late")
