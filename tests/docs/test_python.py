"""What the pages show in Python goes as it is written, and so does the example."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.conftest import CommandLine
from tests.docs.pages import ROOT, Page

PAGES = ("README.md", "docs/guides/python.md")
# All in one process, one after the other: each has what it needs and nothing of the one before.
_IN_TURN = """
import sys
for number, block in enumerate(sys.stdin.read().split("\\0")):
    exec(compile(block, f"block {number}", "exec"), {"__name__": "__main__"})
"""


def blocks() -> list[str]:
    pages = [Page(path=ROOT / name, text=(ROOT / name).read_text("utf-8")) for name in PAGES]
    return [block for page in pages for block in page.blocks("python")]


def test_there_is_python_on_each_page() -> None:
    assert len(blocks()) > len(PAGES)


@pytest.mark.vm
def test_python_on_the_pages_goes_as_it_is_written(crucible: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_TURN],
        input="\0".join(blocks()).encode(),
        env=crucible.environment,
        capture_output=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"hello from sb-"), done.stdout
    assert b"\n7\n" in done.stdout
    example = subprocess.run(
        [sys.executable, ROOT / "examples" / "sandbox.py"],
        env=crucible.environment,
        capture_output=True,
        timeout=280,
    )
    assert example.returncode == 0, example.stderr.decode()
    said = dict(line.split(": ", 1) for line in example.stdout.decode().splitlines())
    assert (said["right"], said["wrong"]) == ("correct", "not correct")
    assert said["broken"].startswith("SyntaxError")
    assert crucible.ok("list") == "", "nothing is left"
