"""`network`: what a sandbox may reach, shown and changed while it runs."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def show(arguments: Arguments) -> int:
    return _change(arguments, {})


def allow(arguments: Arguments) -> int:
    return _change(arguments, {"allow": arguments.words("RULE")})


def deny(arguments: Arguments) -> int:
    return _change(arguments, {"deny": arguments.words("RULE")})


def remove(arguments: Arguments) -> int:
    return _change(arguments, {"remove": arguments.words("RULE")})


def mode(arguments: Arguments) -> int:
    return _change(arguments, {"mode": arguments.word("MODE")})


def _change(arguments: Arguments, change: dict[str, Any]) -> int:
    from crucible.cli import render
    from crucible.cli.service import ask_owner

    told = ask_owner("network", {"name": arguments.word("NAME"), **change})
    spec = told.get("sandbox", {}).get("spec", {})
    policy = {name: spec.get(name) for name in ("network", "allow", "deny")}
    if arguments.flag("json"):
        render.show_json(policy)
        return 0
    rows = [("mode", str(policy["network"]))]
    rows += [(name, rule) for name in ("allow", "deny") for rule in policy[name] or ()]
    for name, value in rows:
        render.say(f"{name}\t{render.visible(value)}")
    return 0


_NAME = Operand("NAME", "the sandbox", complete="sandbox")
_RULES = Operand("RULE", "example.org, *.example.org, host:port, an address, @set", arity="many")

COMMANDS = (
    Command(
        "network",
        notes="""\
A rule that denies wins over every one that allows. Without a port a rule to allow is for 80 and
443, and a rule to deny for all. Addresses that are not public need a rule that names them.
Changes hold at once: what is open and not allowed any more is cut.""",
        examples=(("crucible network allow box example.org", "let it reach one more host"),),
        subcommands=(
            Command(
                "show",
                show,
                operands=(_NAME,),
                options=(JSON,),
                summary="Show what a sandbox may reach",
                examples=(("crucible network show box", "its mode and its rules"),),
            ),
            Command(
                "allow",
                allow,
                operands=(_NAME, _RULES),
                options=(JSON,),
                summary="Let a sandbox reach a host",
                examples=(
                    ("crucible network allow box db.example.org:5432", "one port of a host"),
                ),
            ),
            Command(
                "deny",
                deny,
                operands=(_NAME, _RULES),
                options=(JSON,),
                summary="Never let a sandbox reach a host",
                examples=(
                    ("crucible network deny box '*.example.org'", "whatever is below a name"),
                ),
            ),
            Command(
                "remove",
                remove,
                operands=(_NAME, _RULES),
                options=(JSON,),
                summary="Take rules back",
                examples=(
                    ("crucible network remove box example.org", "as if it had never been said"),
                ),
            ),
            Command(
                "mode",
                mode,
                operands=(_NAME, Operand("MODE", "off, allowlist or full")),
                options=(JSON,),
                summary="Turn the network off, or to what the rules allow, or to all that is public",
                examples=(("crucible network mode box off", "cut it off"),),
            ),
        ),
    ),
)
