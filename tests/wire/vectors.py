"""The golden vectors that the agent's own tests read too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[2] / "guest" / "vectors"


def load(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((VECTORS / f"{name}.json").read_text())
    return vectors


def named(vector: object) -> str:
    return str(vector["name"]) if isinstance(vector, dict) else ""
