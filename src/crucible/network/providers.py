"""Model providers with a plain endpoint inside the machine, so that their programs need no certificate of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from crucible.network.names import OWN_SUFFIX

Wire = Literal["anthropic", "openai", "gemini", "cohere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """`header` is where its key goes, behind `prefix`. `variables` tell its programs where the endpoint is.

    `wire` is whose format its calls have, and `bases` the paths below which they are. `tells_usage` says whether a
    stream has its usage in it without being asked for that.
    """

    name: str
    host: str
    header: str
    prefix: str
    variables: Mapping[str, str]
    wire: Wire = "openai"
    bases: tuple[str, ...] = ("/v1",)
    tells_usage: bool = False

    @property
    def endpoint(self) -> str:
        return self.name + OWN_SUFFIX


@cache
def providers() -> tuple[Provider, ...]:
    import tomllib
    from importlib.resources import files

    text = (files("crucible.network") / "providers.toml").read_text(encoding="utf-8")
    return tuple(
        Provider(
            name=name,
            host=table["host"],
            header=table["header"],
            prefix=table.get("prefix", ""),
            variables=table["variables"],
            wire=table.get("wire", "openai"),
            bases=tuple(table.get("bases", ("/v1",))),
            tells_usage=table.get("tells_usage", False),
        )
        for name, table in tomllib.loads(text).items()
    )


def provider_at(endpoint: str) -> Provider | None:
    return next((found for found in providers() if found.endpoint == endpoint), None)


def provider_of(host: str) -> Provider | None:
    return next((found for found in providers() if found.host == host), None)


def is_of_provider(host: str) -> bool:
    """Its host, or one below it, such as that of a region."""
    return any(host == found.host or host.endswith("." + found.host) for found in providers())
