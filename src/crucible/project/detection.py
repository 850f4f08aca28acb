"""The right image by itself: from the command, the project's files, its Procfile. Guesses, with their reasons.

What is named outright (an option, crucible.toml, devcontainer.json) is no guess and goes before all of this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from crucible.project.languages import LANGUAGES, Language

DEFAULT_IMAGE = "base"
_MOST_FILES = 10_000
_VERSIONED = re.compile(r"(?P<name>[a-z+]+?)-?\d+(?:\.\d+)*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = ("sh", "bash", "zsh")


class Finding(NamedTuple):
    """`step` is what was looked at; `image` is empty if that told nothing, and `why` says so."""

    step: str
    image: str
    why: str
    language: str = ""


def detect(command: Sequence[str], directory: str) -> Finding:
    """The first finding that names an image; the default image when none does."""
    for finding in reasoning(command, directory):
        if finding.image:
            return finding
    raise AssertionError("the last finding always names an image")


def reasoning(command: Sequence[str], directory: str) -> list[Finding]:
    """Every step in the order of precedence. The last is the default and always names an image."""
    return [
        from_command(command),
        from_files(directory),
        _from_procfile(directory),
        Finding("default", DEFAULT_IMAGE, "nothing names a language"),
    ]


def from_command(command: Sequence[str]) -> Finding:
    word = _program(command)
    if not word:
        return Finding("command", "", "there is no command")
    language = language_of(word)
    if language is None:
        return Finding("command", "", f"`{word}` belongs to no language")
    return _found("command", language, f"`{word}` is a command of {language.name}")


def from_files(directory: str) -> Finding:
    try:
        with os.scandir(directory) as entries:
            names = {entry.name for entry, _ in zip(entries, range(_MOST_FILES), strict=False)}
    except OSError as error:
        return Finding("files", "", f"the directory cannot be read: {error.strerror}")
    for language in LANGUAGES:
        for pattern in language.files:
            if name := _matching(pattern, names):
                return _found("files", language, f"`{name}` is a file of {language.name}")
    return Finding("files", "", "no file belongs to a language")


def language_of(word: str) -> Language | None:
    """Whose command it is: `/usr/bin/python3.12` is Python's like `python`."""
    name = word.rsplit("/", 1)[-1]
    for candidate in (name, _without_version(name)):
        for language in LANGUAGES:
            if candidate in language.commands:
                return language
    return None


def _program(command: Sequence[str]) -> str:
    """The word that names the program: behind assignments and `env`, or the first one of `sh -c`."""
    words = list(command)
    if words and words[0].rsplit("/", 1)[-1] == "env":
        words.pop(0)
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    if len(words) >= 3 and words[0].rsplit("/", 1)[-1] in _SHELLS and words[1] in ("-c", "-lc"):
        first = _first_word(words[2])
        if first and language_of(first) is not None:
            return first
    return words[0] if words else ""


def _first_word(script: str) -> str:
    for word in script.split(maxsplit=20):
        if not _ASSIGNMENT.match(word):
            return word
    return ""


def _without_version(name: str) -> str:
    match = _VERSIONED.fullmatch(name)
    return match["name"] if match else name


def _matching(pattern: str, names: set[str]) -> str:
    if not pattern.startswith("*"):
        return pattern if pattern in names else ""
    return min((name for name in names if name.endswith(pattern[1:])), default="")


def _from_procfile(directory: str) -> Finding:
    path = os.path.join(directory, "Procfile")  # noqa: PTH118 - pathlib is not loaded on this path
    if not os.path.lexists(path):
        return Finding("Procfile", "", "there is none")
    from crucible.project.procfile import read_procfile

    for process in read_procfile(path):
        word = _program(process.words)
        language = language_of(word) if word else None
        if language is not None:
            why = f"`{word}` of the process `{process.name}` is a command of {language.name}"
            return _found("Procfile", language, why)
    return Finding("Procfile", "", "none of its processes begins with a command of a language")


def _found(step: str, language: Language, why: str) -> Finding:
    return Finding(step, language.image, why, language.name)
