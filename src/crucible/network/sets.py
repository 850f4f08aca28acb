"""Named sets of hosts: the ones that are data, and the name of the one that is found at run time."""

from __future__ import annotations

from functools import cache
from typing import Final

from crucible.network.rules import Rule, parse_rule

REGISTRIES: Final = "registries"


def known_sets() -> tuple[str, ...]:
    return (*_read(), REGISTRIES)


def members(name: str) -> tuple[Rule, ...]:
    return _read()[name]


@cache
def _read() -> dict[str, tuple[Rule, ...]]:
    import tomllib
    from importlib.resources import files

    text = (files("crucible.network") / "sets.toml").read_text(encoding="utf-8")
    return {
        name: tuple(parse_rule(rule) for rule in table["rules"])
        for name, table in tomllib.loads(text).items()
    }
