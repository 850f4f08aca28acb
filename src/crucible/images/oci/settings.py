"""How registries are to be reached: mirrors, which may go without TLS, extra authorities, patience.

From variables, else from the user's own file (`user_file`):
  CRUCIBLE_REGISTRY_MIRRORS     `docker.io=mirror.example/prefix,...`; without `NAME=` it is for docker.io
  CRUCIBLE_INSECURE_REGISTRIES  `host:port,...` that may be spoken to in plain HTTP
  CRUCIBLE_REGISTRY_CERTS       a directory of `HOST:PORT/*.crt`, looked at before Docker's and podman's
  CRUCIBLE_IMAGE_LIMIT_MIB      what all images together may take, compressed as they are
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crucible.errors import BadReference, BadSetting
from crucible.images.oci.reference import DEFAULT_REGISTRY, parse_reference
from crucible.user_file import Given, gather

DEFAULT_LIMIT_MIB = 20480
_MIRRORS = "CRUCIBLE_REGISTRY_MIRRORS"
_INSECURE = "CRUCIBLE_INSECURE_REGISTRIES"
_CERTIFICATES = "CRUCIBLE_REGISTRY_CERTS"
_LIMIT = "CRUCIBLE_IMAGE_LIMIT_MIB"
_NOTHING = Given(text="", origin="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """When to give up on a server. A body must keep a pace: a byte now and then is not progress."""

    connect_s: float = 15.0
    idle_s: float = 30.0
    exchange_s: float = 60.0
    pace_s: float = 60.0
    pace_bytes: int = 64 << 10
    attempts: int = 5
    first_pause_s: float = 0.5
    longest_pause_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Another place for what `registry` has, asked first. `prefix` goes before the repository."""

    registry: str
    host: str
    prefix: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    mirrors: tuple[Mirror, ...] = ()
    insecure: frozenset[str] = frozenset()
    certificates: tuple[Path, ...] = ()
    limit_bytes: int = DEFAULT_LIMIT_MIB << 20
    patience: Patience = field(default_factory=Patience)


def load_settings(environment: Mapping[str, str] | None = None) -> RegistrySettings:
    values = os.environ if environment is None else environment
    given = gather(values)
    mirrors, insecure = given.get(_MIRRORS, _NOTHING), given.get(_INSECURE, _NOTHING)
    return RegistrySettings(
        mirrors=tuple(_mirror(mirrors.origin, item) for item in _items(mirrors)),
        insecure=frozenset(_host(insecure.origin, item) for item in _items(insecure)),
        certificates=_certificates(values, given.get(_CERTIFICATES, _NOTHING)),
        limit_bytes=_limit(given.get(_LIMIT, Given(text=str(DEFAULT_LIMIT_MIB), origin="default")))
        << 20,
    )


def _mirror(name: str, item: str) -> Mirror:
    registry, equals, place = item.rpartition("=")
    is_plain = place.startswith("http://")
    place = place.removeprefix("http://").removeprefix("https://").strip("/")
    host, _, prefix = place.partition("/")
    if prefix:
        try:
            parse_reference(f"{DEFAULT_REGISTRY}/{prefix}/x")
        except BadReference:
            raise BadSetting(f"{name}: {prefix!r} is no path in a registry") from None
    return Mirror(
        registry=_host(name, registry) if equals else DEFAULT_REGISTRY,
        host=_host(name, host),
        prefix=prefix,
        is_plain=is_plain,
    )


def _host(name: str, item: str) -> str:
    host = item.strip().lower()
    try:
        found = parse_reference(f"{host}/x")
    except BadReference:
        found = None
    if found is None or (found.registry != host and host != "localhost"):
        raise BadSetting(
            f"{name}: {item!r} is no registry's host name", hint="Write HOST or HOST:PORT"
        )
    return host


def _items(given: Given) -> list[str]:
    return [item.strip() for item in given.text.split(",") if item.strip()]


def _certificates(values: Mapping[str, str], own: Given) -> tuple[Path, ...]:
    configuration = values.get("XDG_CONFIG_HOME") or str(Path(values.get("HOME", "/")) / ".config")
    places = [
        f"{configuration}/containers/certs.d",
        "/etc/containers/certs.d",
        "/etc/docker/certs.d",
    ]
    if own.text:
        places.insert(0, own.text)
    return tuple(Path(place) for place in places)


def _limit(given: Given) -> int:
    text = given.text
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise BadSetting(f"{given.origin} is {text!r}", hint="It must be a whole number")
    return int(text)
