"""What a session may do without being asked: rules by tool and pattern, and risk where no rule says anything."""

from __future__ import annotations

from crucible.agent.permissions.patterns import escape
from crucible.agent.permissions.policy import Decision, Policy, parse_policy
from crucible.agent.permissions.rules import Rule, Verdict, parse_rule

__all__ = ["Decision", "Policy", "Rule", "Verdict", "escape", "parse_policy", "parse_rule"]
