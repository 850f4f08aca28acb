"""From a fresh machine to the application in a browser. Every step is skipped when it is done; run it often."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from environment import (
    ROOT,
    VENV,
    build_agent,
    build_pages,
    check_python,
    compile_bytecode,
    install_environment,
    install_packages,
)
from progress import StepFailed, environment, say, step

CRUCIBLE = VENV / "bin" / "crucible"
PORT = "3000"
SETTINGS = ROOT / ".env"
_QUESTIONS = (
    ("CRUCIBLE_HOME", "Directory for images, templates and sandboxes", "~/.local/share/crucible"),
    ("CRUCIBLE_TEMPLATE_LIMIT_MIB", "Disk space for prepared machines, in MiB", "8192"),
)


def main() -> int:
    try:
        check_python()
        install_packages()
        install_environment("run")
        build_agent()
        build_pages()
        compile_bytecode()
        settings = _settings()
        _crucible("Kernel, base image and template", settings, "setup")
        _crucible("Demo", settings, "demo")
    except StepFailed as failure:
        return failure.show()
    except KeyboardInterrupt:
        say("\nStopped. Run `make quickstart` again to go on from here.")
        return 130
    _say_where_it_is(settings)
    return _serve(settings)


def _settings() -> dict[str, str]:
    """What `.env` sets. It is written here once, from answers on a terminal, and never again."""
    if not SETTINGS.exists() and sys.stdin.isatty() and sys.stderr.isatty():
        _ask()
    if not SETTINGS.exists():
        return {}
    lines = (line.strip() for line in SETTINGS.read_text(encoding="utf-8").splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, value in pairs}


def _ask() -> None:
    with step("Settings"):
        say("    Press Enter to keep a default.")
        lines = [
            "# Settings of this checkout; `make quickstart` reads them and never changes them."
        ]
        for name, question, default in _QUESTIONS:
            print(f"    {question} [{default}]: ", end="", file=sys.stderr, flush=True)
            answer = sys.stdin.readline().strip()
            value = str(Path(answer).expanduser()) if answer.startswith("~") else answer
            lines.append(f"{name}={value}" if value else f"# {name}={default}")
        SETTINGS.touch(mode=0o600)
        SETTINGS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _crucible(title: str, settings: dict[str, str], *arguments: str) -> None:
    """Runs our own command, which shows its own progress. What the caller exported wins over `.env`."""
    with step(title):
        done = subprocess.run(
            [str(CRUCIBLE), *arguments], env={**settings, **environment()}, check=False
        )
        if done.returncode != 0:
            raise StepFailed(
                f"`crucible {' '.join(arguments)}` ended with status {done.returncode}",
                hint="Run `.venv/bin/crucible doctor`, then `make quickstart` again",
            )


def _say_where_it_is(settings: dict[str, str]) -> None:
    say('\nReady. Call it as .venv/bin/crucible, or first run: export PATH="$PWD/.venv/bin:$PATH"')
    if settings:
        say("Your settings are in .env; a shell takes them with: set -a; . ./.env; set +a")


def _serve(settings: dict[str, str]) -> int:
    """The application, until it is stopped; without somebody at a terminal only how to start it."""
    serve = [str(CRUCIBLE), "serve", "--port", PORT]
    is_watched = sys.stdin.isatty() and sys.stderr.isatty()
    if not is_watched or os.environ.get("SERVE") == "0":
        say(f"The application: .venv/bin/crucible serve --port {PORT}")
        return 0
    say(f"\nThe application is on http://localhost:{PORT} until you press Ctrl-C.")
    try:
        return subprocess.run(serve, env={**settings, **environment()}, check=False).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
