"""The examples: each folder and command gets the image that their page promises; what the base image serves runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.docs.pages import ROOT

from crucible.project.detection import detect, from_files
from crucible.project.languages import LANGUAGES, SERVED_BY_BASE

EXAMPLES = ROOT / "examples"
_ROW = re.compile(
    r"^\| (.+?) \| `(.+?)` \| `(crucible run --dir examples/(\w+) .+?)` \|$", re.MULTILINE
)
ROWS = _ROW.findall((EXAMPLES / "README.md").read_text(encoding="utf-8"))
GREETINGS = {"Python": "hello from Python\n", "Shell": "hello from the shell\n"}

by_row = pytest.mark.parametrize(
    "language, image, command, folder", ROWS, ids=[row[3] for row in ROWS]
)


def test_every_language_has_its_row_and_its_folder() -> None:
    told = [(language, image) for language, image, _, _ in ROWS]
    assert told == [(language.name, language.image) for language in LANGUAGES]
    assert sorted(row[3] for row in ROWS) == sorted(
        path.name for path in EXAMPLES.iterdir() if path.is_dir()
    )


@by_row
def test_the_folder_gets_its_image(language: str, image: str, command: str, folder: str) -> None:
    found = from_files(str(EXAMPLES / folder))
    assert (found.language, found.image) == (language, image)


@by_row
def test_the_command_gets_its_image(
    language: str, image: str, command: str, folder: str, tmp_path: Path
) -> None:
    words = _inner(command)
    here = tmp_path if language != "Kotlin" else EXAMPLES / folder
    assert detect(words, str(here)).image == image


def test_detect_says_the_same(crucible: CommandLine) -> None:
    del crucible.environment["CRUCIBLE_IMAGE"]
    assert crucible.ok("detect", "--dir", EXAMPLES / "terraform") == "hashicorp/terraform:1.10\n"


@pytest.mark.vm
def test_what_the_base_image_serves_runs(crucible: CommandLine) -> None:
    commands = {row[0]: row[2] for row in ROWS}
    assert set(GREETINGS) == SERVED_BY_BASE
    for language, greeting in GREETINGS.items():
        assert crucible.ok(*shlex.split(commands[language])[1:], cwd=ROOT) == greeting


def _inner(command: str) -> list[str]:
    words = shlex.split(command)
    return words[words.index("--") + 1 :]
