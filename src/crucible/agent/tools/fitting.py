"""Whether arguments fit a JSON Schema that somebody else wrote: a skill, an MCP server.

Such a schema is hostile. One that cannot be used, or not within some steps, decides nothing: who wrote it judges the
arguments itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from crucible.agent.schemas import SchemaChecker
from crucible.errors import BadSetting

# A quarter of a second at worst: nobody else is served meanwhile.
_MOST_STEPS = 5_000
_MOST_TOLD = 5


def faults_of(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """In words, or nothing."""
    checker = _checker(json.dumps(schema, sort_keys=True))
    if checker is None:
        return ""
    try:
        found = checker.faults(dict(arguments))
    except Exception:
        return ""
    return "; ".join(map(str, found[:_MOST_TOLD]))


@lru_cache(maxsize=256)
def _checker(schema: str) -> SchemaChecker | None:
    try:
        return SchemaChecker(json.loads(schema), most_steps=_MOST_STEPS)
    except BadSetting:
        return None
