"""Runs the host's programs during a build. One that fails becomes an error with the end of what it said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from crucible.errors import BuildFailed
from crucible.system import require

_SHOWN_LINES = 12
_KEPT = frozenset(
    (
        *("home", "user", "logname", "tmpdir"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
        *("ssl_cert_file", "ssl_cert_dir"),
    )
)
_UMASK = 0o022
_SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"


def output_of(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """What the program prints on its standard output."""
    done = subprocess.run(
        _found(argv),
        cwd=cwd,
        env=environment(),
        umask=_UMASK,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise _failure(argv, done.returncode, (done.stdout + done.stderr).splitlines())
    return done.stdout


def follow(
    argv: Sequence[str],
    *,
    on_line: Callable[[str], None],
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Runs a long program and hands over each line of its standard error. Stopped when we are."""
    said: list[str] = []
    process = subprocess.Popen(
        _found(argv),
        env=environment(extra),
        umask=_UMASK,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    with process:
        try:
            assert process.stderr is not None  # noqa: S101 - for mypy: it is a pipe
            for line in process.stderr:
                said.append(line.rstrip())
                del said[:-_SHOWN_LINES]
                on_line(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise _failure(argv, process.returncode, said)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a build may see of the caller's environment: the rest would find its way into an image.

    Python programs that packages run while they are installed would write bytecode that differs from build to build.
    """
    kept = {name: value for name, value in os.environ.items() if name.lower() in _KEPT}
    # The distribution's programs first: its scripts start Python for each package, and a version manager's is slow.
    path = f"{_SYSTEM}:{os.environ.get('PATH', os.defpath)}:/usr/local/sbin"
    fixed = {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "DEBIAN_FRONTEND": "noninteractive",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    return {**kept, **fixed, **(extra or {})}


def _found(argv: Sequence[str]) -> list[str]:
    return [*require(argv[0]), *argv[1:]]


def _failure(argv: Sequence[str], status: int, said: Sequence[str]) -> BuildFailed:
    tail = "\n".join(f"  {line}" for line in said[-_SHOWN_LINES:])
    return BuildFailed(
        f"`{argv[0]}` ended with status {status}:\n{tail}",
        hint="Check the network and the disk's free space, then run `crucible setup` again",
    )
