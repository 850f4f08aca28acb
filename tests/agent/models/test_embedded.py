"""The very small model that needs neither a key nor a network, for real."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.models.asking import answer, ask_for, gather, text_of
from tests.conftest import Run

from crucible import weights
from crucible.agent.models import embedded
from crucible.agent.models.base import Schema, ToolSpec
from crucible.agent.models.embedded import EmbeddedModel
from crucible.agent.models.persistent import Patience, Persistent
from crucible.agent.models.registry import EMBEDDED_REF
from crucible.errors import ContextTooLong, PrerequisiteMissing


@pytest.fixture(scope="module")
def model(run: Run) -> Iterator[EmbeddedModel]:
    made = EmbeddedModel(EMBEDDED_REF)
    try:
        yield made
    finally:
        run(made.close())


def test_it_answers_in_pieces_and_counts_its_tokens(model: EmbeddedModel, run: Run) -> None:
    tool = ToolSpec(name="bash", description="", parameters={"type": "object"})
    request = ask_for("Say hello.", max_output_tokens=8, temperature=0.0, tools=(tool,))
    events = run(gather(model, request))
    end = run(answer(model, request))
    assert text_of(events) == end.message.text != ""
    assert end.usage.input_tokens > 5
    assert 0 < end.usage.output_tokens <= 8
    assert str(end.model) == "embedded:smollm2-135m"


def test_it_says_of_itself_what_it_is(model: EmbeddedModel) -> None:
    profile = model.profile
    assert (profile.is_tiny, profile.calls_tools, profile.takes_schema) == (True, False, True)
    assert "a very small model (135M)" in embedded.DESCRIPTION


def test_it_is_held_to_a_schema(model: EmbeddedModel, run: Run) -> None:
    schema = {
        "type": "object",
        "properties": {"is_city": {"type": "boolean"}},
        "required": ["is_city"],
        "additionalProperties": False,
    }
    wanted = Schema(name="place", schema=schema)
    end = run(answer(model, ask_for("Porto?", schema=wanted, max_output_tokens=40)))
    assert set(json.loads(end.message.text)) == {"is_city"}


def test_what_is_longer_than_it_can_read_is_told(model: EmbeddedModel, run: Run) -> None:
    with pytest.raises(ContextTooLong):
        run(answer(model, ask_for("word " * 6000)))


def test_it_comes_back_after_a_crash(model: EmbeddedModel, run: Run) -> None:
    request = ask_for("Say hello.", max_output_tokens=2, temperature=0.0)
    run(answer(model, request))
    server = model._server
    assert server is not None
    assert server.pid is not None
    dying = server.pid
    os.kill(dying, signal.SIGKILL)
    while server.pid == dying:
        time.sleep(0.01)
    end = run(answer(Persistent(model, Patience(first_wait_s=0.0)), request))
    assert end.message.text


def test_without_its_file_it_comes_with_the_command_that_brings_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = replace(weights.SMOLLM2, package="no_such_package")
    monkeypatch.setattr(weights, "SMOLLM2", gone)
    with pytest.raises(PrerequisiteMissing) as raised:
        run(answer(EmbeddedModel(EMBEDDED_REF), ask_for("a")))
    assert raised.value.hint == "Run `crucible setup --embedded-model`"


def test_a_file_that_was_changed_is_not_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    altered = replace(weights.SMOLLM2, sha256="0" * 64)
    monkeypatch.setattr(weights, "SMOLLM2", altered)
    monkeypatch.setattr(embedded, "_verified", lambda path, size, mtime: weights.verify(altered))
    with pytest.raises(PrerequisiteMissing, match="not the one that was tested"):
        run(answer(EmbeddedModel(EMBEDDED_REF), ask_for("a")))
