"""The policy of a session: which uses of tools are allowed, asked about or denied.

In this order: a deny that matches; an allow that names exactly this use; an ask that matches, or a deny or ask of which
it cannot be told; an allow that matches; and where no rule says anything, the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crucible.agent.permissions.rules import Rule, Verdict, exact_rule, parse_rule
from crucible.agent.permissions.subjects import Match, Subject, subject_of
from crucible.agent.risk.report import NOTHING_FOUND, Finding, Report, Severity
from crucible.agent.tools.base import Use
from crucible.errors import BadPolicy

MAX_RULES = 500
_KEYS = ("allow", "ask", "deny", "default", "ask_from")
_DEFAULTS = ("risk", *Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`rule` is none where no rule said anything."""

    verdict: Verdict
    rule: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Without a rule, risk decides: what reaches out of the sandbox, or is risky enough, is asked about.

    `default` puts another verdict in the place of that.
    """

    rules: tuple[Rule, ...] = ()
    ask_from: Severity = Severity.HIGH
    default: Verdict | None = None

    def judge(self, use: Use, risk: Report = NOTHING_FOUND) -> Decision:
        about = [rule for rule in self.rules if rule.is_about(use.tool, use.subject)]
        subject = subject_of(use)
        denied = _first(about, Verdict.DENY, subject, Match.CERTAIN)
        if denied is not None:
            return _said(denied, f"`{denied.text}` is denied")
        exact = next((rule for rule in about if _is_exact(rule, use)), None)
        if exact is not None:
            return _said(exact, "Exactly this was allowed")
        asked = _first(about, Verdict.ASK, subject, Match.CERTAIN)
        if asked is not None:
            return _said(asked, f"`{asked.text}` is to be asked about")
        unclear = _first(about, Verdict.DENY, subject, Match.POSSIBLE) or _first(
            about, Verdict.ASK, subject, Match.POSSIBLE
        )
        if unclear is not None:
            reason = f"It cannot be told before it runs whether this is `{unclear.text}`"
            return Decision(verdict=Verdict.ASK, rule=unclear.text, reason=reason)
        allows = [rule for rule in about if rule.verdict is Verdict.ALLOW]
        by = subject.allowed_by([rule.pattern for rule in allows])
        if by is not None:
            return _said(allows[by], f"`{allows[by].text}` is allowed")
        return self._by_default(use, risk)

    def with_rule(self, use: Use) -> Policy:
        """What follows when a person allows this use for good: this one, and nothing else."""
        rule = parse_rule(always_rule(use), Verdict.ALLOW)
        if any(old.verdict is Verdict.ALLOW and old.text == rule.text for old in self.rules):
            return self
        if len(self.rules) >= MAX_RULES:
            raise BadPolicy(f"A policy has at most {MAX_RULES} rules")
        return replace(self, rules=(*self.rules, rule))

    def _by_default(self, use: Use, risk: Report) -> Decision:
        if self.default is not None:
            return Decision(verdict=self.default, rule=None, reason="No rule says anything of it")
        if use.reach == "outside":
            return _ask("It reaches out of the sandbox")
        if risk.severity >= self.ask_from:
            return _ask(_worst(risk.findings))
        if not risk.is_whole:
            return _ask("Some of it could not be inspected")
        return Decision(verdict=Verdict.ALLOW, rule=None, reason="Nothing risky was found")


def always_rule(use: Use) -> str:
    """The rule that a person's `always` adds for this use."""
    return exact_rule(use.tool, use.exact or use.subject)


def parse_policy(given: Mapping[str, Any]) -> Policy:
    """From `allow`, `ask` and `deny` (lists of rules), `default` and `ask_from`. Raises BadPolicy."""
    for key in given:
        if key not in _KEYS:
            raise BadPolicy(f"A policy has no {key!r}", hint=f"It has {', '.join(_KEYS)}")
    rules: list[Rule] = []
    for verdict in Verdict:
        rules += (parse_rule(text, verdict) for text in _listed(given, verdict))
    if len(rules) > MAX_RULES:
        raise BadPolicy(f"A policy has at most {MAX_RULES} rules, not {len(rules)}")
    return Policy(
        rules=tuple(rules),
        ask_from=_severity(given.get("ask_from", "high")),
        default=_default(given.get("default", "risk")),
    )


def _listed(given: Mapping[str, Any], key: str) -> Iterable[object]:
    value = given.get(key, ())
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise BadPolicy(f"`{key}` is to be a list of rules, not {value!r}")
    return value


def _severity(value: object) -> Severity:
    names = [severity.name.lower() for severity in Severity if severity]
    if not isinstance(value, str) or value not in names:
        raise BadPolicy(f"`ask_from` cannot be {value!r}", hint=f"It is one of {', '.join(names)}")
    return Severity[value.upper()]


def _default(value: object) -> Verdict | None:
    if not isinstance(value, str) or value not in _DEFAULTS:
        raise BadPolicy(
            f"`default` cannot be {value!r}", hint=f"It is one of {', '.join(_DEFAULTS)}"
        )
    return None if value == "risk" else Verdict(value)


def _first(rules: list[Rule], verdict: Verdict, subject: Subject, match: Match) -> Rule | None:
    for rule in rules:
        if rule.verdict is verdict and subject.match(rule.pattern) is match:
            return rule
    return None


def _is_exact(rule: Rule, use: Use) -> bool:
    return (
        rule.verdict is Verdict.ALLOW
        and rule.pattern is not None
        and rule.pattern.is_exactly(use.exact or use.subject)
    )


def _said(rule: Rule, reason: str) -> Decision:
    return Decision(verdict=rule.verdict, rule=rule.text, reason=reason)


def _ask(reason: str) -> Decision:
    return Decision(verdict=Verdict.ASK, rule=None, reason=reason)


def _worst(findings: tuple[Finding, ...]) -> str:
    worst = max(findings, key=lambda finding: finding.severity)
    return f"{worst.why[:-1]} ({worst.rule}, line {worst.line})"
