"""What an inspection finds: findings with a category, a severity and a place, gathered in a report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Language(StrEnum):
    PYTHON = "python"
    JAVASCRIPT = "javascript"
    TYPESCRIPT = "typescript"
    TSX = "tsx"
    SHELL = "shell"


class Category(StrEnum):
    NETWORK = "network"
    FILESYSTEM = "filesystem"
    PROCESS = "process"
    OBFUSCATION = "obfuscation"
    CREDENTIALS = "credentials"
    DESTRUCTIVE = "destructive"
    UNPARSED = "unparsed"


class Severity(IntEnum):
    """In order, so that they can be compared; NONE is only ever a report's."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`line` and `column` count from 1; a program within another one lies where the outer one runs it."""

    category: Category
    severity: Severity
    line: int
    column: int
    excerpt: str
    why: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`is_whole` is false when some of the code was not looked at: too large, too deep, or not understood."""

    findings: tuple[Finding, ...] = ()
    is_whole: bool = True

    @property
    def severity(self) -> Severity:
        return max((finding.severity for finding in self.findings), default=Severity.NONE)

    @property
    def categories(self) -> frozenset[Category]:
        return frozenset(finding.category for finding in self.findings)


NOTHING_FOUND = Report()
