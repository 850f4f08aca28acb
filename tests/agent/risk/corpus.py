"""The labelled snippets, and the fixed half of them that the rules were never tuned on."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from crucible.agent.risk import Language

_FILES = Path(__file__).parent.parent / "risk_corpus"
_SECOND = Path(__file__).parent.parent / "risk_corpus_second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    id: str
    code: str
    language: Language
    expect: frozenset[str]

    @property
    def is_held_out(self) -> bool:
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 1


def all_snippets() -> list[Snippet]:
    return _snippets(_FILES)


def second_snippets() -> list[Snippet]:
    """By another author, who had not read the rules."""
    return _snippets(_SECOND)


def _snippets(folder: Path) -> list[Snippet]:
    return [
        Snippet(
            id=row["id"],
            code=row["code"],
            language=Language(row.get("language", path.stem)),
            expect=frozenset(row["expect"]),
        )
        for path in sorted(folder.glob("*.toml"))
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["snippet"]
    ]
