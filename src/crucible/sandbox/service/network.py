"""What a client asks to change of a sandbox's network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crucible.errors import BadSetting
from crucible.sandbox.service.requests import optional
from crucible.sandbox.spec import SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkChange:
    """Rules that are removed go from both lists. A network that was off and gets a rule has an allowlist."""

    mode: str | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    remove: tuple[str, ...]

    @classmethod
    def parse(cls, request: Mapping[str, Any]) -> NetworkChange:
        return cls(
            mode=optional(request, "mode", str),
            allow=_rules(request, "allow"),
            deny=_rules(request, "deny"),
            remove=_rules(request, "remove"),
        )

    def apply(self, spec: SandboxSpec) -> SandboxSpec:
        """Raises BadSetting for a rule or a mode that is none."""
        from crucible.network.policy import Policy

        absent = [rule for rule in self.remove if rule not in (*spec.allow, *spec.deny)]
        if absent:
            raise BadSetting(f"There is no rule {absent[0]!r}", hint="See `crucible network show`")
        mode = self.mode or spec.network
        if self.allow and self.mode is None and mode == "off":
            mode = "allowlist"
        policy = Policy.parse(
            mode,
            [rule for rule in (*spec.allow, *self.allow) if rule not in self.remove],
            [rule for rule in (*spec.deny, *self.deny) if rule not in self.remove],
        )
        return replace(
            spec,
            network=mode,
            allow=tuple(rule.text for rule in policy.allow),
            deny=tuple(rule.text for rule in policy.deny),
        )


def _rules(request: Mapping[str, Any], name: str) -> tuple[str, ...]:
    rules = optional(request, name, list) or []
    if not all(isinstance(rule, str) for rule in rules):
        raise BadSetting(f"The request's {name!r} is not a list of rules")
    return tuple(rules)
