"""Secrets that a sandbox uses and never has: it holds placeholders, and the gateway puts the values in.

A value goes into heads of requests to the host it is bound to, over TLS, and nowhere else. It is in no repr.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from crucible.errors import BadSetting
from crucible.network.guard import Guard, Leaks, basic_of
from crucible.network.http1 import Request
from crucible.network.http2 import Head
from crucible.network.providers import provider_of
from crucible.network.rules import Rule, parse_rule

MAX_VALUE: Final = 1 << 14
MIN_VALUE: Final = 4
TLS_PORTS: Final = ((443, 443),)

_PATH: Final = b":path"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]{1,64}")
_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]")
_FORM: Final = "Write `NAME:HOST` (the value is taken from the variable NAME here) or `NAME=VALUE:HOST[:HEADER]`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """`header` is set to the value in every request; without one, the placeholder is replaced where it stands."""

    name: str
    value: str = field(repr=False)
    host: Rule
    header: str = ""
    prefix: str = ""
    placeholder: str = ""

    def is_for(self, host: str, port: int) -> bool:
        return self.host.covers_name(host) and self.host.covers_port(port, TLS_PORTS)


def parse_secret(text: str, environment: Mapping[str, str]) -> Secret:
    """`NAME[=VALUE]:HOST[:PORT][:HEADER]`. Raises BadSetting, without the value in it."""
    name, separator, rest = _cut_name(text)
    if not _NAME.fullmatch(name):
        raise BadSetting("A secret needs a name like that of a variable", hint=_FORM)
    parts = rest.split(":")
    header = ""
    if len(parts) > 1 + (separator == "=") and _is_header(parts[-1]):
        header = parts.pop()
    port = parts.pop() if len(parts) > 1 + (separator == "=") and parts[-1].isdecimal() else ""
    host = parts.pop() if parts else ""
    value = ":".join(parts) if separator == "=" else environment.get(name, "")
    if parts and separator == ":":
        raise BadSetting(f"The secret {name} is not well formed", hint=_FORM)
    if separator == "=" and ":" not in rest:
        raise BadSetting(f"The secret {name} is bound to no host", hint=_FORM)
    return bind(name, value, host + (f":{port}" if port else ""), header)


def bind(name: str, value: str, host: str, header: str = "") -> Secret:
    """From parts that were read elsewhere. Raises BadSetting, without the value in it."""
    if not value:
        hint = f"Set it with `export {name}=…`, or write the value into the setting"
        raise BadSetting(f"The secret {name} has no value: the variable is not set here", hint=hint)
    if not MIN_VALUE <= len(value) <= MAX_VALUE or not value.isascii() or not value.isprintable():
        raise BadSetting(
            f"The value of the secret {name} cannot be sent in a header",
            hint=f"It must be {MIN_VALUE} to {MAX_VALUE} printable ASCII characters",
        )
    if not _HOST.match(host):
        raise BadSetting(f"The secret {name} is bound to no host", hint=_FORM)
    rule = parse_rule(host)
    if rule.set_name or rule.network is not None:
        raise BadSetting(f"The secret {name} must be bound to the name of a host", hint=_FORM)
    if header and not _HEADER.fullmatch(header):
        raise BadSetting(f"The secret {name} is bound to no proper header", hint=_FORM)
    provider = provider_of(rule.name)
    prefix = ""
    if provider is not None and header.lower() in ("", provider.header):
        header, prefix = provider.header, provider.prefix
    elif header.lower() == "authorization" and " " not in value:
        prefix = "Bearer "
    return Secret(name=name, value=value, host=rule, header=header, prefix=prefix)


class Secrets:
    """All secrets of one sandbox, each with its placeholder."""

    def __init__(
        self, secrets: Iterable[Secret] = (), placeholders: Mapping[str, str] | None = None
    ):
        """`placeholders` are those that a sandbox was given before; the others are made."""
        known = placeholders or {}
        self._secrets = tuple(
            replace(secret, placeholder=known.get(secret.name) or new_placeholder(secret.name))
            for secret in secrets
        )
        names = [secret.name for secret in self._secrets]
        if len(set(names)) != len(names):
            raise BadSetting("Two secrets have the same name", hint="Name each differently")

    def __bool__(self) -> bool:
        return bool(self._secrets)

    @property
    def placeholders(self) -> dict[str, str]:
        """What the machine is given in the place of values: variables for its programs."""
        return {secret.name: secret.placeholder for secret in self._secrets}

    @property
    def variables(self) -> dict[str, str]:
        """Placeholders, and where the programs of model providers find their endpoints."""
        found = self.placeholders
        for secret in self._secrets:
            if (provider := provider_of(secret.host.name)) is not None:
                found |= provider.variables
        return found

    def bound(self, host: str, port: int) -> tuple[Secret, ...]:
        return tuple(secret for secret in self._secrets if secret.is_for(host, port))

    def guard(self, place: str, bound: tuple[Secret, ...] = ()) -> Guard | None:
        """Against all placeholders but those that are replaced on this connection."""
        strangers = {s.placeholder.encode(): s.name for s in self._secrets if s not in bound}
        return Guard(strangers, place) if strangers else None


def leaks(bound: tuple[Secret, ...]) -> Leaks:
    return Leaks({secret.value.encode(): secret.name for secret in bound})


def new_placeholder(name: str) -> str:
    import secrets

    return f"crucible-secret-{name.lower().replace('_', '-')}-{secrets.token_hex(16)}"


def put_into_request(bound: tuple[Secret, ...], request: Request) -> Request:
    target, *fields = put_into_head(bound, ((_PATH, request.target), *request.fields))
    return replace(request, target=target[1], fields=tuple(fields))


def put_into_head(bound: tuple[Secret, ...], head: Head) -> Head:
    """Each value goes where its placeholder stands, or else into its header, whatever that held."""
    for secret in bound:
        filled = tuple((name, _filled(secret, name, value)) for name, value in head)
        if filled == head and secret.header:
            header = secret.header.lower().encode()
            value = (secret.prefix + secret.value).encode()
            filled = (*(field for field in head if field[0].lower() != header), (header, value))
        head = filled
    return head


def _filled(secret: Secret, name: bytes, value: bytes) -> bytes:
    placeholder = secret.placeholder.encode()
    if placeholder in (hidden := basic_of(value)):
        return b"Basic " + base64.b64encode(hidden.replace(placeholder, secret.value.encode()))
    return value.replace(placeholder, _quoted(secret) if name == _PATH else secret.value.encode())


def _quoted(secret: Secret) -> bytes:
    from urllib.parse import quote

    return quote(secret.value, safe="").encode()


def _cut_name(text: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:]*)([=:]?)", text)
    if match is None:
        return "", "", ""
    return match[1], match[2], text[match.end() :]


def _is_header(text: str) -> bool:
    """Rather than a host: those that secrets are bound to have a dot."""
    return bool(_HEADER.fullmatch(text)) and "." not in text and not text.isdecimal()
