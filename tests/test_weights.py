"""The models that come with Crucible: pinned, whole, and never taken for what they are not."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from crucible import weights
from crucible.diagnosis import models
from crucible.errors import BuildFailed, PrerequisiteMissing
from crucible.images.report import silent

ROOT = Path(__file__).resolve().parent.parent


def test_the_pins_are_the_same_everywhere() -> None:
    constraints = (ROOT / "constraints.txt").read_text().split()
    assert {*weights.RUNNERS, *weights.CARRIERS} <= set(constraints)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(extras["optional-dependencies"]["embedded"]) == sorted(weights.RUNNERS)


@pytest.mark.parametrize("model", weights.MODELS, ids=lambda model: str(model.name))
def test_what_is_installed_is_what_was_tested(model: weights.ModelFile) -> None:
    assert weights.verify(model) == weights.locate(model)


def test_a_model_that_is_not_there_comes_with_the_command_that_brings_it() -> None:
    with pytest.raises(PrerequisiteMissing) as raised:
        weights.locate(replace(weights.SMOLLM2, package="no_such_package"))
    assert raised.value.hint == "Run `crucible setup --embedded-model`"
    with pytest.raises(PrerequisiteMissing, match="not installed"):
        weights.locate(replace(weights.SMOLLM2, path="no-such-file"))


def _model_of(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> weights.ModelFile:
    package = tmp_path / "altered_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('nobody may import this')")
    (package / "weights").write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = b"what was tested"
    return replace(
        weights.MINILM,
        package=package.name,
        path="weights",
        size_bytes=len(known),
        sha256=sha256(known).hexdigest(),
    )


@pytest.mark.parametrize("content", [b"", b"what was teste", b"what was tested!"])
def test_a_model_of_another_size_is_refused(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model_of(tmp_path, content, monkeypatch)
    with pytest.raises(PrerequisiteMissing, match=r"bytes instead of 15"):
        weights.locate(model)


def test_a_model_with_another_content_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model_of(tmp_path, b"what was altered"[:15], monkeypatch)
    assert weights.locate(model).name == "weights"
    with pytest.raises(PrerequisiteMissing, match="not the one that was tested"):
        weights.verify(model)


def test_installing_leaves_out_what_the_carriers_ask_for() -> None:
    commands: list[list[str]] = []
    weights.install("/usr/bin/python3", commands.append)
    runners, carriers = commands
    assert "--no-deps" not in runners
    assert "--no-deps" in carriers
    assert set(weights.CARRIERS) <= set(carriers)
    assert not set(weights.CARRIERS) & set(runners)


def test_what_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(python: str, run: object) -> None:
        raise AssertionError("nothing was to be installed")

    monkeypatch.setattr(weights, "install", refuse)
    told: list[tuple[str, str]] = []
    models.install_models(lambda stage, detail: told.append((stage, detail)))
    assert told == [("models", "SmolLM2-135M-Instruct (98 MB) and all-MiniLM-L6-v2 (91 MB)")]


def test_a_failing_pip_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "is_installed", lambda: False)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(BuildFailed, match="ended with status 1"):
        models.install_models(silent)
