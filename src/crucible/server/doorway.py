"""How the TCP door is to be: what the command line says, else the variables, else the user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from crucible.config import parse_flag
from crucible.errors import BadSetting
from crucible.server.tls import TlsFiles
from crucible.user_file import Given, gather
from crucible.values import dataclass

# Each option with the variable that it goes before.
OPTIONS = {
    "tls-cert": "CRUCIBLE_TLS_CERT",
    "tls-key": "CRUCIBLE_TLS_KEY",
    "e2b-domain": "CRUCIBLE_E2B_DOMAIN",
}
PUBLIC = "e2b-public"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"((?:{_LABEL}\.)*{_LABEL})(?::([1-9][0-9]{{0,4}}))?\Z")
_LONGEST_DOMAIN = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class E2bDomain:
    """The names of E2B's clients lie beneath `name`. `port` is what is told where clients come in, 0 if that is ours.

    With `is_public`, who knows the id of a sandbox reaches its ports without a token, as E2B has it.
    """

    name: str
    port: int = 0
    is_public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    tls: TlsFiles | None = None
    e2b: E2bDomain | None = None


def doorway(
    options: Mapping[str, str],
    *,
    is_public: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Doorway:
    """Raises BadSetting. `options` are those that were given, by their names in OPTIONS."""
    values = dict(os.environ) if environment is None else environment
    given = gather(values, only="server")
    for option, variable in OPTIONS.items():
        if option in options:
            given[variable] = Given(text=options[option], origin=f"--{option}")
    return Doorway(tls=_tls(given), e2b=_e2b(given, is_public=is_public))


def parse_domain(text: str, origin: str) -> tuple[str, int]:
    match = _DOMAIN.match(text.lower()) if len(text) <= _LONGEST_DOMAIN else None
    port = int(match[2] or 0) if match else 0
    if match is None or port > 65535 or not re.search(r"[a-z]", match[1].rpartition(".")[2]):
        raise BadSetting(
            f"{origin} is {text[:80]!r}", hint="It is a name such as sandboxes.example.com"
        )
    return match[1], port


def _tls(given: Mapping[str, Given]) -> TlsFiles | None:
    certificate, key = given.get("CRUCIBLE_TLS_CERT"), given.get("CRUCIBLE_TLS_KEY")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadSetting(
            "Of a certificate and its key only one is given",
            hint="Give both: --tls-cert and --tls-key",
        )
    return TlsFiles(certificate=_path(certificate), key=_path(key))


def _path(given: Given) -> Path:
    if not given.text or "\0" in given.text:
        raise BadSetting(f"{given.origin} is {given.text[:80]!r}", hint="It is a file's path")
    return Path(given.text).absolute()


def _e2b(given: Mapping[str, Given], *, is_public: bool) -> E2bDomain | None:
    found = given.get("CRUCIBLE_E2B_DOMAIN")
    public = given.get("CRUCIBLE_E2B_PUBLIC")
    is_public = is_public or (public is not None and parse_flag(public.text, public.origin))
    if found is None:
        if is_public:
            raise BadSetting(
                "Ports of sandboxes are to be public, but have no names",
                hint="Give --e2b-domain as well",
            )
        return None
    name, port = parse_domain(found.text, found.origin)
    return E2bDomain(name=name, port=port, is_public=is_public)
