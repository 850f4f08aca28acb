"""The sessions that the pages show, typed in for real: what a reader sees is what is written there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.docs.pages import ROOT, Page

pytestmark = pytest.mark.vm

PAGES = (
    "README.md",
    "docs/guides/first-sandbox.md",
    "docs/guides/working-on-a-project.md",
    "docs/guides/snapshots-and-forks.md",
)
# Needs a person, or is not about a sandbox.
_LEFT_OUT = re.compile(
    r"make |export |crucible (doctor|detect|attach|open|ports web --forward|system (uninstall|prune))|crucible \w+ -it"
)
_PROJECT = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "check.py": (
        "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
        'test_add()\nprint("passed")\n'
    ),
    ".crucibleignore": "__pycache__/\n.venv/\n",
    "notes.txt": "notes\n",
    "src/module.py": "pass\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "calc"
    for name, text in _PROJECT.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", PAGES)
def test_a_session_goes_as_it_is_written(name: str, crucible: CommandLine, project: Path) -> None:
    page = Page(path=ROOT / name, text=(ROOT / name).read_text(encoding="utf-8"))
    for command, shown in steps(page):
        said = typed(command, crucible, project)
        if shown:
            assert plain(said) == plain(shown), f"{name}: `{command}` says:\n{said}"
        else:
            assert "error:" not in said, f"{name}: `{command}` says:\n{said}"


def steps(page: Page) -> Iterator[tuple[str, str]]:
    """Each line to type, and what is shown below it."""
    for block in page.blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if not _LEFT_OUT.match(command):
                yield command, shown


def typed(command: str, crucible: CommandLine, directory: Path) -> str:
    path = f"{Path(sys.executable).parent}:{crucible.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**crucible.environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,  # one of them puts images together and boots a machine of them
    )
    return done.stdout.decode()


def plain(text: str) -> list[str]:
    """Without what differs from time to time: numbers, ages, the width of columns, the label of this machine."""
    text = text.replace("hardware-vm", "software-vm")
    text = re.sub(r"/\S*/(\w+)$", r"/\1", text, flags=re.MULTILINE)
    text = re.sub(r"\d+(\.\d+)?", "0", text)
    text = re.sub(r"0 (s|min) ago", "0 s ago", text)
    return [" ".join(line.split()) for line in text.splitlines()]
