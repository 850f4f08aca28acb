"""Judges calls for the engine: the code in them is inspected, then the session's policy decides."""

from __future__ import annotations

from functools import lru_cache

from crucible.agent.facts import Finding
from crucible.agent.options import PolicyRules
from crucible.agent.permissions.policy import Policy, always_rule, parse_policy
from crucible.agent.risk import inspect
from crucible.agent.risk.report import NOTHING_FOUND, Language, Report
from crucible.agent.seams import Verdict
from crucible.agent.tools.base import Use


class PolicyJudge:
    def check(self, rules: PolicyRules) -> None:
        _policy(rules)

    def judge(self, rules: PolicyRules, use: Use) -> Verdict:
        report = inspect(use.code.text, Language(use.code.language)) if use.code else NOTHING_FOUND
        decision = _policy(rules).judge(use, report)
        return Verdict(
            decision=decision.verdict.value,
            reason=decision.reason,
            always=always_rule(use),
            findings=_findings(report),
        )


@lru_cache(maxsize=256)
def _policy(rules: PolicyRules) -> Policy:
    return parse_policy(
        {
            "allow": rules.allow,
            "ask": rules.ask,
            "deny": rules.deny,
            "default": rules.default,
            "ask_from": rules.ask_from,
        }
    )


def _findings(report: Report) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            rule=found.rule, severity=found.severity.name.lower(), line=found.line, why=found.why
        )
        for found in report.findings
    )
