"""The programs on the pages about risk and permissions go as they are written."""

from __future__ import annotations

import pytest
from tests.docs.pages import ROOT, Page

from crucible.agent.risk.rules import RULES


@pytest.mark.parametrize("name", ["permissions", "risk"])
def test_the_programs_of_the_guides_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "docs" / "guides" / f"{name}.md"
    blocks = Page(path=path, text=path.read_text(encoding="utf-8")).blocks("python")
    assert blocks
    for block in blocks:
        exec(compile(block, str(path), "exec"), {})


def test_every_rule_is_on_the_reference_page_once() -> None:
    text = (ROOT / "docs" / "reference" / "risks.md").read_text(encoding="utf-8")
    for name in RULES:
        assert text.count(f"| `{name}` |") == 1
