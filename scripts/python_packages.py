"""Installs Python packages as `pip install` does: by uv, in a tenth of the time, or by pip where uv cannot."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from progress import environment, run_quietly

# pip's own settings, of which uv reads none.
_SETTING = re.compile(r"^[^=]*\.(?P<name>index-url|no-index|cert)='(?P<value>.*)'$", re.MULTILINE)


def install(python: Path, *words: str) -> None:
    """Into the environment of that interpreter, or where the words say."""
    if not _is_done_by_uv(python, words):
        run_quietly([*_pip(python), *words])


def bring_uv(python: Path, *words: str) -> None:
    run_quietly([*_pip(python), "--only-binary=:all:", *words, "uv"], may_fail=True)


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]


def _is_done_by_uv(python: Path, words: tuple[str, ...]) -> bool:
    uv = python.with_name("uv")
    settings = _settings_of_pip(python)
    # Who has told pip of a place of their own is not sent to another.
    if not uv.exists() or {"index-url", "no-index"} & settings.keys():
        return False
    own = {"SSL_CERT_FILE": settings["cert"]} if "cert" in settings else {}
    return run_quietly(
        [str(uv), "pip", "install", "--quiet", "--python", str(python), *words],
        may_fail=True,
        variables={**own, **environment()},
    )


@functools.cache
def _settings_of_pip(python: Path) -> dict[str, str]:
    words = [str(python), "-m", "pip", "config", "list"]
    told = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    return {found["name"]: found["value"] for found in _SETTING.finditer(told.stdout)}
