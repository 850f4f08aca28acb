"""The program as a process: exit statuses, errors, odd surroundings, and what it does not import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crucible import __version__

HEAVY = {
    "argparse", "asyncio", "dataclasses", "enum", "inspect", "json", "pathlib", "re", "socket",
    "sqlite3", "subprocess", "threading", "typing",
}  # fmt: skip
_SHOW_MODULES = """
import sys
from crucible.cli.main import main
main(sys.argv[1:])
sys.stderr.write(" ".join(sys.modules))
"""


def crucible(*words: str | bytes, home: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if home is not None:
        environment["CRUCIBLE_HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-m", "crucible.cli", *words],
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["exec", "--help"], ["--version"]]
)
def test_help_imports_nothing_that_takes_time(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", _SHOW_MODULES, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert set(done.stderr.decode().split()) & HEAVY == set()


@pytest.mark.parametrize("words", [["--version"], ["version"], ["-V"]])
def test_the_version_is_told(words: list[str]) -> None:
    assert crucible(*words).stdout == f"crucible {__version__}\n".encode()


@pytest.mark.parametrize(
    "words, said, hint",
    [
        (["lits"], "There is no command 'lits'", "Did you mean `list`?"),
        (["run"], "CMD is missing", "Usage: crucible run"),
        (
            ["run", "--memory", "64M", "true"],
            "64 MiB of memory is too little",
            "The minimum is 128M",
        ),
        (["run", "--memory", "lots", "true"], "'lots' is not a size", "512M"),
        (["run", "--cpus", "0", "true"], "0 processors cannot be given", "1 to"),
        (["run", "--cpus", "many", "true"], "'many' is no value for --cpus", "whole number"),
        (["run", "--disk", "1M", "true"], "A disk of 1 MiB cannot be given", "Ask for"),
        (["run", "--timeout", "soon", "true"], "'soon' is not a duration", "30s"),
        (["run", "--env", "NOVALUE", "true"], "'NOVALUE' is not NAME=VALUE", "--env NAME=VALUE"),
        (
            ["run", "--min-isolation", "strong", "true"],
            "'strong' is not an isolation label",
            "hardware-vm",
        ),
        (["run", "--dir", "/nosuch", "true"], "'/nosuch' is not a directory", "--dir"),
        (["run", "--config", "/nosuch", "true"], "/nosuch cannot be read", ""),
        (["run", "--name", "a/b", "true"], "'a/b' is not a sandbox name", "63 letters"),
        (["run", "--name", "..", "true"], "'..' is not a sandbox name", "63 letters"),
        (["run", "-t", "true"], "-t needs a terminal", "Leave -t away"),
        (["create", "a b"], "'a b' is not a sandbox name", "63 letters"),
        (["create", "x" * 300], "is not a sandbox name", "63 letters"),
        (["create"], "NAME is missing", "Usage"),
        (["exec", "-td", "box", "true"], "-t needs a terminal", ""),
        (["fork", "box", "--count", "0"], "0 copies cannot be made", "1 to 100"),
        (["inspect", "nosuch"], "There is no sandbox named 'nosuch'", "crucible list"),
        (["cp", "a", "b"], "Neither path is in a sandbox", "NAME:PATH"),
        (["cp", "a:/x", "b:/y"], "Both paths are in sandboxes", "host first"),
        (["completion", "tcsh"], "There is no completion for 'tcsh'", "bash"),
        (["system", "uninstall", "extra"], "does not take the word 'extra'", "Usage"),
    ],
)
def test_bad_input_gets_an_error_a_hint_and_126(
    tmp_path: Path, words: list[str], said: str, hint: str
) -> None:
    done = crucible(*words, home=tmp_path / "home")
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 126, lines
    assert done.stdout == b""
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    if hint:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    "word", [b"\x1b[2Jx", b"a\nb", b"\xff\xfe", "\u202eevil".encode(), b"a\rb"]
)
def test_hostile_words_do_not_reach_the_terminal_raw(tmp_path: Path, word: bytes) -> None:
    for words in ([b"inspect", word], [word], [b"run", b"--" + word, b"x"], [b"create", word]):
        done = crucible(*words, home=tmp_path / "home")
        assert done.returncode == 126
        text = done.stderr.decode()
        assert all(line.isprintable() for line in text.splitlines())
        assert len(text.splitlines()) <= 2


def test_a_closed_pipe_ends_a_list_by_its_signal() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    client = subprocess.Popen(
        [sys.executable, "-m", "crucible.cli", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    _, errors = client.communicate(timeout=60)
    assert (client.returncode, errors) == (-signal.SIGPIPE, b"")


def test_closed_descriptors_are_survived(tmp_path: Path) -> None:
    program = f"exec '{sys.executable}' -m crucible.cli list --json <&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "CRUCIBLE_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"[]\n")


def test_looking_makes_no_state_directory(tmp_path: Path) -> None:
    for words in (["list"], ["list", "--json"], ["list", "-q"], ["snapshot", "list"], ["stats"]):
        assert crucible(*words, home=tmp_path / "home").returncode == 0
    assert not (tmp_path / "home").exists()


def test_nowhere_to_keep_state_is_told(tmp_path: Path) -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("HOME", "XDG_DATA_HOME", "CRUCIBLE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-m", "crucible.cli", "list"],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 126
    assert b"hint: Set CRUCIBLE_HOME" in done.stderr


def test_a_defect_of_ours_is_125_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "records.sqlite").mkdir()
    done = crucible("list", home=tmp_path)
    assert done.returncode == 125
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr
