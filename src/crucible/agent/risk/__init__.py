"""Looks at code before it runs: Python, JavaScript, TypeScript and shell, by syntax tree.

It tells what a program would do as far as that can be read from it. It is no boundary: the sandbox is.
"""

from __future__ import annotations

from collections.abc import Sequence

from crucible.agent.risk.inspection import GivenUp, Inspection
from crucible.agent.risk.report import Category, Finding, Language, Report, Severity

__all__ = ["Category", "Finding", "Language", "Report", "Severity", "inspect", "inspect_command"]


def inspect(code: str, language: Language) -> Report:
    """Never raises, whatever the text; what cannot be looked at is a finding, and the report is then not whole."""
    inspection = Inspection()
    try:
        inspection.program(code, language)
    except GivenUp:
        pass
    except RecursionError:
        inspection.miss("too-deep")
    return inspection.report()


def inspect_command(command: str | Sequence[str]) -> Report:
    """A line for a shell, or the words of one command that is run without a shell."""
    if isinstance(command, str):
        return inspect(command, Language.SHELL)
    from crucible.agent.risk.inspection import MAX_CHARACTERS
    from crucible.agent.risk.shell.commands import Command, known
    from crucible.agent.risk.shell.judging import Judge

    inspection = Inspection()
    if sum(map(len, command)) + len(command) > MAX_CHARACTERS:
        inspection.miss("too-large")
        return inspection.report()
    try:
        words = tuple(known(word) for word in command)
        Judge(inspection, "").judge_alone(Command(words=words))
    except GivenUp:
        pass
    except RecursionError:
        inspection.miss("too-deep")
    return inspection.report()
