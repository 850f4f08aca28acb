"""The guide's table is what the program does."""

from __future__ import annotations

from pathlib import Path

from crucible.agent.hooks.points import FACTS

_GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "hooks.md"


def test_the_guide_tells_of_each_point_what_is_so() -> None:
    text = _GUIDE.read_text()
    for point, facts in FACTS.items():
        fields = ", ".join(f"`{name}`" for name in facts.fields)
        changes = ", ".join(f"`{name}`" for name in facts.changeable)
        row = f"| `{point}` | {facts.when} | {fields} | {changes} | {facts.on_failure} |"
        assert row in text
