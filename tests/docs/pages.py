"""The Markdown pages of the project, and what is in them: links, code spans, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """Everything outside fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def spans(self) -> list[str]:
        return _SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """As GitHub makes them from headings."""
        return {
            re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in _HEADING.findall(self.prose)
        }

    def blocks(self, language: str) -> list[str]:
        return [body for found, body in _FENCE.findall(self.text) if found == language]

    def shown_commands(self) -> Iterator[str]:
        """What a reader is told to type: the lines of console blocks that begin with a dollar."""
        for block in self.blocks("console"):
            for line in block.splitlines():
                if line.startswith("$ "):
                    yield line[2:]


def all_pages() -> list[Page]:
    others = [ROOT / "guest" / "PROTOCOL.md", ROOT / "examples" / "README.md"]
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *others]
    return [Page(path=path, text=path.read_text(encoding="utf-8")) for path in sorted(paths)]
