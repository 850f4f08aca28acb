"""The engine's judge: inspects what a call would run, and lets the session's policy decide."""

from __future__ import annotations

from functools import lru_cache

from crucible.agent import facts
from crucible.agent.options import PolicyRules
from crucible.agent.permissions.policy import Policy, always_rule, parse_policy
from crucible.agent.risk import Finding, Language, Report, Severity, inspect
from crucible.agent.risk.rules import RULES
from crucible.agent.seams import Verdict
from crucible.agent.tools.base import Code, Use
from crucible.errors import BadPolicy


class PolicyJudge:
    """What the engine is handed where policies shall count."""

    def inspect(self, code: Code) -> tuple[facts.Finding, ...]:
        report = inspect(code.text, Language(code.language))
        return tuple(
            facts.Finding(
                rule=found.rule,
                severity=found.severity.name.lower(),
                line=found.line,
                why=found.why,
            )
            for found in report.findings
        )

    def judge(self, rules: PolicyRules, use: Use, findings: tuple[facts.Finding, ...]) -> Verdict:
        given = {"allow": rules.allow, "ask": rules.ask, "deny": rules.deny}
        try:
            policy = _policy(tuple(given.items()))
        except BadPolicy as error:
            return Verdict(decision="deny", reason=f"The policy itself is wrong: {error.message}")
        decision = policy.judge(use, _report(findings))
        return Verdict(
            decision=decision.verdict.value, reason=decision.reason, always=always_rule(use)
        )


@lru_cache(maxsize=64)
def _policy(given: tuple[tuple[str, tuple[str, ...]], ...]) -> Policy:
    return parse_policy(dict(given))


def _report(findings: tuple[facts.Finding, ...]) -> Report:
    """What could not be looked at is among the findings, and grave enough."""
    return Report(
        findings=tuple(
            Finding(
                category=RULES[found.rule].category,
                severity=Severity[found.severity.upper()],
                line=found.line,
                column=1,
                excerpt="",
                why=found.why,
                rule=found.rule,
            )
            for found in findings
            if found.rule in RULES
        )
    )
