"""The embedding model's file: made once, whole or not at all, from what was tested only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memory.conftest import SharedEmbedder

from crucible import weights
from crucible.errors import PrerequisiteMissing
from crucible.memory import minilm
from crucible.memory.embedding import MiniLM
from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.store.database import Database


async def test_near_in_meaning_is_near_in_space(embedder: SharedEmbedder) -> None:
    texts = ["A man is eating food.", "Someone has a meal.", "The stock market fell today."]
    one, near, far = await embedder.embed(texts)
    assert _dot(one, near) > 0.5 > _dot(one, far)


async def test_a_text_of_any_length_has_a_vector(embedder: SharedEmbedder) -> None:
    for text in ("", "wörd é " * 5000, "\x00"):
        (vector,) = await embedder.embed([text])
        assert len(vector) == minilm.DIMENSIONS


def test_words_that_were_changed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights_file = tmp_path / "model.safetensors"
    weights_file.write_bytes(b"")
    (tmp_path / "vocab.txt").write_text("[PAD]\nevil\n")
    monkeypatch.setattr(weights, "verify", lambda model: weights_file)
    with pytest.raises(PrerequisiteMissing, match="not those that were tested"):
        minilm.model_file(tmp_path / "home")
    assert not (tmp_path / "home" / "models" / minilm.FILE_NAME).exists()


async def test_without_the_models_package_words_find_and_the_command_is_said(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_path", lambda model: None)
    embedder = MiniLM(tmp_path / "home")
    memory = Memory(database, extractor=RuleExtractor(), embedder=embedder)
    await memory.remember("ana", "I live in Porto")
    recalled = await memory.recall("ana", "Porto", 1000)
    assert [item.fact.text for item in recalled.items] == ["Lives in Porto"]
    assert "Only words" in recalled.notice
    assert weights.INSTALL_COMMAND in recalled.notice
    await embedder.close()


def _dot(one: object, other: object) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))  # type: ignore[call-overload]
