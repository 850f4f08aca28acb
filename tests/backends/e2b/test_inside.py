"""What is sent to be run inside, run here by a real shell; and what comes back from there, which may be anything."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.backends.e2b import scripts, starting
from crucible.backends.e2b.files import _digests, _entries
from crucible.errors import CommandNotExecutable, CommandNotFound, GuestRefused, RemoteUnreachable
from crucible.sandbox.session import Command

WORDS = st.lists(st.binary(max_size=40).map(lambda word: word.replace(b"\0", b"")), max_size=5)


def begun(command: Command) -> tuple[str, subprocess.CompletedProcess[bytes]]:
    """What the shell said of it first, and how it went on."""
    beginning = starting.begin(command)
    done = subprocess.run([starting.SHELL, *beginning.arguments], capture_output=True, timeout=60)
    assert done.stderr.startswith(beginning.mark)
    word, _, _ = done.stderr.removeprefix(beginning.mark).partition(b";")
    return word.decode(), done


@settings(max_examples=25, deadline=None)
@given(WORDS)
def test_any_words_arrive_as_they_are(words: list[bytes]) -> None:
    program = "import sys, os; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    argv = [sys.executable.encode(), b"-c", program.encode(), *words]
    said, done = begun(Command(argv=argv))
    assert said == "ok"
    assert done.stdout == b"\0".join(words)


def test_what_stands_in_the_way_of_a_command_is_told_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    path = str(tmp_path).encode()
    for argv, workdir, makes, expected in (
        ([b"true"], b"", False, "ok"),
        ([b"nosuch"], b"", False, "not-found"),
        ([b""], b"", False, "not-found"),
        ([b"cd"], b"", False, "not-found"),
        ([b"/no/such"], b"", False, "not-found"),
        ([path + b"/plain"], b"", False, "not-executable"),
        ([path], b"", False, "not-executable"),
        ([b"true"], b"relative", True, "no-such-workdir"),
        ([b"true"], path + b"/plain", False, "no-such-workdir"),
        ([b"true"], path + b"/new/er", False, "no-such-workdir"),
        ([b"true"], path + b"/new/er", True, "ok"),
    ):
        said, _ = begun(Command(argv=argv, workdir=workdir, makes_workdir=makes))
        assert said == expected, (argv, workdir)
    assert isinstance(starting.refusal("not-found", Command(argv=[b"x"])), CommandNotFound)
    assert isinstance(
        starting.refusal("not-executable", Command(argv=[b"x"])), CommandNotExecutable
    )
    assert starting.refusal("\x1b[2J", Command(argv=[b"\x1b"])).guest_code == "bad-request"


def test_files_are_told_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a\nb")
    words = [starting.SHELL, "-c", scripts.LIST, "sh", str(tmp_path)]
    told = subprocess.run(words, capture_output=True, check=True).stdout
    entries = {entry.name: entry for entry in _entries(told)}
    assert (entries[b"a\nb"].type, entries[b"a\nb"].size) == ("file", 5)
    assert (entries[b"link"].type, entries[b"link"].target) == ("symlink", b"a\nb")


@pytest.mark.parametrize(
    "script, path, status",
    [
        (scripts.READ, "/nosuch", 41),
        (scripts.READ, "/etc/passwd/x", 42),
        (scripts.READ, "/etc", 43),
        (scripts.READ, "/dev/zero", 48),
        (scripts.LIST, "/etc/passwd", 42),
        (scripts.STAT, "/nosuch/deep/er", 41),
    ],
)
def test_what_cannot_be_done_ends_with_its_number(script: str, path: str, status: int) -> None:
    words = [starting.SHELL, "-c", script, "sh", path, "1", "0"]
    assert subprocess.run(words, capture_output=True, timeout=60).returncode == status
    assert scripts.CODES[status]


@given(st.binary(max_size=300))
def test_whatever_the_inside_tells_of_files_is_understood_or_refused(told: bytes) -> None:
    for read in (_entries, _digests):
        with contextlib.suppress(RemoteUnreachable, GuestRefused):
            read(told)


@given(st.lists(st.binary(max_size=12), max_size=24))
def test_fields_of_any_kind_are_understood_or_refused(fields: list[bytes]) -> None:
    with contextlib.suppress(RemoteUnreachable):
        _entries(b"".join(field.replace(b"\0", b"") + b"\0" for field in fields))
