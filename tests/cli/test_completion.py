"""Completion scripts: shells take them, and bash completes with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crucible.cli.main import main

SHELLS = [name for name in ("bash", "zsh", "fish") if shutil.which(name)]


@pytest.fixture
def script(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", request.param]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("script, shell", [(name, name) for name in SHELLS], indirect=["script"])
def test_the_shell_takes_its_script(script: str, shell: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    "words, expected",
    [
        (["ru"], {"run", "runs"}),
        (["sna"], {"snapshot"}),
        (["r"], {"run", "runs", "remove", "resume", "rm"}),
        (["run", "--mem"], {"--memory"}),
        (["rm", "--f"], {"--force"}),
        (["exec", "b"], {"box"}),
        (["start", ""], {"box", "other"}),
        (["snapshot", "re"], {"remove", "restore"}),
        (["snapshot", "restore", "t"], {"tag"}),
        (["image", "inspect", "b"], {"base"}),
        (["snapshot", "box", "--"], {"--help"}),
        (["system", ""], {"df", "prune", "uninstall"}),
        (["cp", "ot"], {"other:"}),
    ],
)
def test_bash_completes(script: str, words: list[str], expected: set[str], tmp_path: Path) -> None:
    # Stands in for the real program, of which completion only asks for names.
    program = tmp_path / "crucible"
    program.write_text(
        '#!/bin/sh\ncase "$1" in snapshot) echo tag ;; image) echo base ;; *) echo box; echo other ;; esac\n'
    )
    program.chmod(0o755)
    count = len(words)
    quoted = " ".join(f"'{word}'" for word in words)
    commands = (
        f"{script}\nCOMP_WORDS=(crucible {quoted}); COMP_CWORD={count}; _crucible\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", commands],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    found = set(done.stdout.decode().split())
    assert expected <= found
    if expected != {"--help"} and words[0] != "cp":
        assert found == expected


def test_an_unknown_shell_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crucible.cli", "completion", "tcsh"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 126
