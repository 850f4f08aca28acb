"""What a sandbox may reach: a mode, rules that allow and rules that deny. Data; it dials nothing.

A denying rule wins. An address that is not of the public internet is reached only if a rule is about it:
by the address itself, or by a name with `+private`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from crucible.errors import BadSetting
from crucible.network.addresses import (
    NEIGHBOURS,
    Address,
    Classifier,
    Kind,
    disguises,
    kind_of,
    parse_address,
)
from crucible.network.names import is_public_name, normal_name, shown
from crucible.network.rules import ANY_PORT, WEB_PORTS, Rule, parse_rule
from crucible.network.sets import REGISTRIES, known_sets, members

MAX_RULES: Final = 1_000


class Mode(StrEnum):
    OFF = "off"
    ALLOWLIST = "allowlist"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`rule` is what decided: a rule as it is written, or the mode. `hint` is the rule that would allow it, or "".

    `is_checked` says whether the names in the stream (SNI, Host) are held to the one that was asked for;
    `may_be_silent`, whether the stream may name nothing at all.
    """

    allowed: bool
    rule: str
    reason: str
    hint: str = ""
    is_checked: bool = True
    may_be_silent: bool = False
    is_explicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`registries` is what `@registries` stands for on this host; see `registries.find`. It is not written out."""

    mode: Mode = Mode.OFF
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    registries: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, mode: str, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> Policy:
        """From what a flag, a file or a record says. Raises BadSetting."""
        if mode not in list(Mode):
            close = get_close_matches(mode, list(Mode), 1)
            hint = f"Did you mean `{close[0]}`?" if close else f"It is one of {', '.join(Mode)}"
            raise BadSetting(f"{mode!r} is not a network mode", hint=hint)
        if len(allow) + len(deny) > MAX_RULES:
            raise BadSetting(f"A network policy has at most {MAX_RULES} rules")
        rules = [[_known(parse_rule(text)) for text in texts] for texts in (allow, deny)]
        return cls(mode=Mode(mode), allow=_unique(rules[0]), deny=_unique(rules[1]))

    def as_json(self) -> dict[str, str | list[str]]:
        """`Policy.parse(**policy.as_json())` is the same policy."""
        return {
            "mode": str(self.mode),
            "allow": [rule.text for rule in self.allow],
            "deny": [rule.text for rule in self.deny],
        }

    def allowing(self, *texts: str) -> Policy:
        """With further rules. A sandbox whose network was off then has an allowlist."""
        mode = Mode.ALLOWLIST if self.mode is Mode.OFF else self.mode
        added = tuple(_known(parse_rule(text)) for text in texts)
        return replace(self, mode=mode, allow=_unique([*self.allow, *added]))

    def denying(self, *texts: str) -> Policy:
        added = tuple(_known(parse_rule(text)) for text in texts)
        return replace(self, deny=_unique([*self.deny, *added]))

    @property
    def needs_registries(self) -> bool:
        return any(rule.set_name == REGISTRIES for rule in (*self.allow, *self.deny))

    def decide(
        self, name: str, address: str, port: int, classify: Classifier = kind_of
    ) -> Decision:
        """Whether a connection may be made.

        A name with no address is judged as a name alone: ask again with each address it resolves to.
        An address with no name is one that a program dialled itself.
        """
        if self.mode is Mode.OFF:
            hint = rule_for(name or address, port)
            return _refusal(self.mode, "the network of this sandbox is off", hint)
        normal = normal_name(name) if name else ""
        if normal is None:
            return _refusal("names", f"`{shown(name)}` is not a host name")
        parsed = parse_address(address) if address else None
        if address and parsed is None:
            return _refusal("addresses", f"`{shown(address)}` is not an address")
        if not 1 <= port <= 65535:
            return _refusal("ports", f"{port} is not a port")
        if (rule := self._denying(normal, parsed, port)) is not None:
            return _refusal(rule.text, f"the rule `{rule.text}` denies it")
        if normal:
            return self._decide_name(normal, parsed, port, classify)
        if parsed is not None:
            return self._decide_literal(parsed, port, classify)
        return _refusal("names", "neither a name nor an address was asked for")

    def _decide_name(
        self, name: str, address: Address | None, port: int, classify: Classifier
    ) -> Decision:
        matching = [rule for rule in self._rules(self.allow) if rule.covers_name(name)]
        granting = [rule for rule in matching if rule.covers_port(port, WEB_PORTS)]
        if not granting and self.mode is Mode.ALLOWLIST:
            return _refusal(self.mode, *_unnamed(name, port, matching))
        if not granting and not is_public_name(name):
            reason = f"`{name}` is not a name of the public internet"
            return _refusal(self.mode, reason, rule_for(name, port, "+private"))
        rule = granting[0].text if granting else str(self.mode)
        if address is not None and (kind := classify(address)) is not Kind.PUBLIC:
            is_opened = kind in NEIGHBOURS and any(rule.reaches_private for rule in granting)
            if not is_opened and not self._naming(address, port):
                reason = f"`{name}` resolves to {address}, which is {kind}"
                hint = _private_rule(name, address, port, kind)
                return _refusal(rule, reason, hint)
        return self._grant(rule, granting, is_explicit=bool(granting))

    def _decide_literal(self, address: Address, port: int, classify: Classifier) -> Decision:
        naming = self._naming(address, port)
        if naming:
            return self._grant(naming[0].text, naming, is_explicit=True)
        kind = classify(address)
        if self.mode is Mode.FULL and kind is Kind.PUBLIC:
            return self._grant(str(self.mode), [], is_explicit=False)
        reason = f"no rule allows the address {address}"
        if kind is not Kind.PUBLIC:
            reason += f", which is {kind}"
        return _refusal(self.mode, reason, rule_for(str(address), port))

    def _grant(self, rule: str, granting: list[Rule], *, is_explicit: bool) -> Decision:
        return Decision(
            allowed=True,
            rule=rule,
            reason=f"allowed by `{rule}`",
            is_checked=not any(rule.is_unchecked for rule in granting),
            may_be_silent=self.mode is Mode.FULL and not is_explicit and not self.deny,
            is_explicit=is_explicit,
        )

    def _naming(self, address: Address, port: int) -> list[Rule]:
        return [
            rule
            for rule in self._rules(self.allow)
            if rule.names_address(address) and rule.covers_port(port, WEB_PORTS)
        ]

    def _denying(self, name: str, address: Address | None, port: int) -> Rule | None:
        hidden = () if address is None else tuple(disguises(address))
        for rule in self._rules(self.deny):
            if not rule.covers_port(port, ANY_PORT):
                continue
            if (name and rule.covers_name(name)) or any(map(rule.covers_address, hidden)):
                return rule
        return None

    def _rules(self, rules: tuple[Rule, ...]) -> Iterator[Rule]:
        for rule in rules:
            if not rule.set_name:
                yield rule
                continue
            found = self.registries if rule.set_name == REGISTRIES else members(rule.set_name)
            for member in found:
                ports = member.ports if rules is self.allow else ()
                yield replace(member, text=rule.text, ports=rule.ports or ports)


def _known(rule: Rule) -> Rule:
    if rule.set_name and rule.set_name not in known_sets():
        close = get_close_matches(rule.set_name, known_sets(), 1)
        listed = ", ".join(f"@{name}" for name in known_sets())
        hint = f"Did you mean `@{close[0]}`?" if close else f"Known sets: {listed}"
        raise BadSetting(f"There is no set of hosts named {rule.set_name!r}", hint=hint)
    return rule


def _unique(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple({rule.text: rule for rule in rules}.values())


def _unnamed(name: str, port: int, matching: list[Rule]) -> tuple[str, str]:
    reason = f"no rule allows `{name}`"
    if matching:
        reason = f"`{matching[0].text}` does not open port {port} of `{name}`"
    return reason, rule_for(name, port)


def _private_rule(name: str, address: Address, port: int, kind: Kind) -> str:
    if kind in NEIGHBOURS:
        return rule_for(name, port, "+private")
    return rule_for(str(address), port)


def rule_for(host: str, port: int, flags: str = "") -> str:
    """The rule that would let it through, written as a person would; "" if there can be none."""
    address = parse_address(host)
    written = normal_name(host) if address is None else str(address)
    if written is None or not 1 <= port <= 65535:
        return ""
    if port in (80, 443):
        return written + flags
    return (f"[{written}]" if ":" in written else written) + f":{port}{flags}"


def _refusal(rule: str, reason: str, hint: str = "") -> Decision:
    return Decision(allowed=False, rule=str(rule), reason=reason, hint=hint)
