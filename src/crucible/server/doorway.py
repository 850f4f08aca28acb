"""How the TCP door is to be: what the command line says, else the variables, else the user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from crucible.config import parse_flag
from crucible.errors import BadSetting
from crucible.server.access import LOOPBACK, OidcSettings
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
ACCOUNTS = "accounts"
_OIDC = {
    "issuer": "CRUCIBLE_OIDC_ISSUER",
    "client_id": "CRUCIBLE_OIDC_CLIENT_ID",
    "client_secret": "CRUCIBLE_OIDC_CLIENT_SECRET",
    "label": "CRUCIBLE_OIDC_LABEL",
}
_LONGEST_VALUE = 512
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"((?:{_LABEL}\.)*{_LABEL})(?::([1-9][0-9]{{0,4}}))?\Z")
_LONGEST_DOMAIN = 180
_PUBLIC = re.compile(rf"(https?)://((?:{_LABEL}\.)*{_LABEL})(?::([1-9][0-9]{{0,4}}))?\Z")


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
    has_accounts: bool = False
    is_signup_open: bool = False
    oidc: OidcSettings | None = None
    public_url: str = ""


def doorway(
    options: Mapping[str, str],
    *,
    is_public: bool = False,
    has_accounts: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Doorway:
    """Raises BadSetting. `options` are those that were given, by their names in OPTIONS."""
    values = dict(os.environ) if environment is None else environment
    given = gather(values, only="server")
    for option, variable in OPTIONS.items():
        if option in options:
            given[variable] = Given(text=options[option], origin=f"--{option}")
    accounts = given.get("CRUCIBLE_ACCOUNTS")
    has_accounts |= accounts is not None and parse_flag(accounts.text, accounts.origin)
    return Doorway(
        tls=_tls(given),
        e2b=_e2b(given, is_public=is_public),
        has_accounts=has_accounts,
        is_signup_open=_is_signup_open(given),
        oidc=_oidc(given) if has_accounts else None,
        public_url=_public_url(given),
    )


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


def _public_url(given: Mapping[str, Given]) -> str:
    """As a browser writes an origin: small letters, no path, no port that goes without saying."""
    found = given.get("CRUCIBLE_PUBLIC_URL")
    if found is None:
        return ""
    text = found.text.lower().removesuffix("/")
    match = _PUBLIC.match(text) if len(text) <= _LONGEST_DOMAIN else None
    port = int(match[3] or 0) if match else 0
    if match is None or port > 65535 or (match[1] == "http" and match[2] not in LOOPBACK):
        raise BadSetting(
            f"{found.origin} is {found.text[:80]!r}",
            hint="It is an address such as https://crucible.example.com; http is for this machine alone",
        )
    is_usual = port == {"https": 443, "http": 80}[match[1]]
    return f"{match[1]}://{match[2]}" + (f":{port}" if port and not is_usual else "")


def _is_signup_open(given: Mapping[str, Given]) -> bool:
    found = given.get("CRUCIBLE_SIGNUP")
    if found is None or found.text == "closed":
        return False
    if found.text != "open":
        raise BadSetting(f"{found.origin} is {found.text[:80]!r}", hint="It is open or closed")
    return True


def _oidc(given: Mapping[str, Given]) -> OidcSettings | None:
    values = {name: given[variable] for name, variable in _OIDC.items() if variable in given}
    if not values:
        return None
    for value in values.values():
        if len(value.text) > _LONGEST_VALUE or not value.text.isprintable():
            raise BadSetting(f"{value.origin} is too long, or has control characters")
    if "issuer" not in values or "client_id" not in values:
        raise BadSetting(
            "To sign in elsewhere takes both who issues identities and who we are there",
            hint="Set CRUCIBLE_OIDC_ISSUER and CRUCIBLE_OIDC_CLIENT_ID",
        )
    issuer = values["issuer"]
    if not _is_issuer(issuer.text):
        raise BadSetting(
            f"{issuer.origin} is {issuer.text[:80]!r}",
            hint="It is an address such as https://accounts.example.com; http is for this machine alone",
        )
    return OidcSettings(**{name: value.text for name, value in values.items()})


def _is_issuer(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_here = parts.hostname in LOOPBACK
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username)
    return (
        bool(parts.hostname)
        and is_plain
        and parts.scheme in (("http", "https") if is_here else ("https",))
    )
