"""A rule of a policy: a tool, or tools, and a pattern of what they are used on: `bash(git push*)`, `mcp__files__*`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from crucible.agent.permissions.patterns import MAX_PATTERN, Pattern, compile_pattern, escape
from crucible.errors import BadPolicy

_SKILL = "skill:"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`pattern` is none where the rule is about every use of the tool."""

    verdict: Verdict
    text: str
    tool: Pattern
    pattern: Pattern | None

    def is_about(self, tool: str, subject: str) -> bool:
        """`skill:name` is about the tools of a skill, and about the one that reads it to the model."""
        if self.tool.matches(tool):
            return True
        if not self.text.startswith(_SKILL):
            return False
        name = compile_pattern(_parts(self.text)[0] or "")
        if tool == "skill":
            return name.matches(_SKILL + subject.partition(" ")[0])
        prefix, _, rest = tool.partition("__")
        skill, _, own = rest.partition("__")
        if prefix != "skill" or not own:
            return False
        return name.matches(_SKILL + skill) or _is_shortened(name, tool, own)


def parse_rule(text: object, verdict: Verdict) -> Rule:
    """Raises BadPolicy."""
    if not isinstance(text, str) or not text.strip():
        raise BadPolicy(f"A rule of `{verdict}` is empty or no text: {text!r}", hint=_HINT)
    if len(text) > MAX_PATTERN:
        raise BadPolicy(f"A rule of `{verdict}` has more than {MAX_PATTERN} characters", hint=_HINT)
    tool, pattern = _parts(text)
    if tool is None:
        raise BadPolicy(
            f"The rule {text!r} has a bracket that is not closed at its end", hint=_HINT
        )
    if not tool or tool != tool.strip() or any(letter.isspace() for letter in tool):
        raise BadPolicy(f"The rule {text!r} does not begin with the name of a tool", hint=_HINT)
    return Rule(
        verdict=verdict,
        text=text,
        tool=compile_pattern(tool),
        pattern=None if pattern is None else compile_pattern(pattern),
    )


def exact_rule(tool: str, subject: str) -> str:
    """The rule for this use of a tool, and no other."""
    return f"{escape(tool)}({escape(subject)})"


_HINT = (
    'Write a rule as "tool" or "tool(pattern)", such as "bash(git push*)" or "write(/workspace/**)"'
)


def _is_shortened(name: Pattern, tool: str, own: str) -> bool:
    """Long names are cut, with a mark that only the whole one gives."""
    from crucible.agent.skills.tools import tool_name

    literal = name.literal
    return literal is not None and tool_name(literal.removeprefix(_SKILL), own) == tool


def _parts(text: str) -> tuple[str | None, str | None]:
    """The tool and the pattern; no tool where the bracket that opens is not closed by the last character."""
    at = 0
    while at < len(text) and text[at] != "(":
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        return text, None
    if not text.endswith(")") or len(text) == at + 1:
        return None, None
    return text[:at], text[at + 1 : -1]
