"""The secrets of one sandbox on the host's side: values in this process's memory alone, placeholders beside its disk.

What lies on the disk is worth nothing elsewhere: names, placeholders, and the key of an authority that only this
sandbox and its copies trust.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crucible.errors import BadSetting, GuestRefused, StateDamaged
from crucible.sandbox.session import Files

if TYPE_CHECKING:
    from crucible.network.authority import Authority
    from crucible.network.secrets import Secret, Secrets

PLACEHOLDERS_NAME = "placeholders.json"
AUTHORITY_NAME = "authority.pem"
BUNDLE_PATH = b"/usr/local/share/crucible/certificates.pem"
_SYSTEM_BUNDLES = (
    b"/etc/ssl/certs/ca-certificates.crt",
    b"/etc/pki/tls/certs/ca-bundle.crt",
    b"/etc/ssl/cert.pem",
)
_MOST_BUNDLE_BYTES = 4 << 20


class SandboxSecrets:
    """Made for a start. `variables` are what its commands get; `secrets` and `authority` what the gateway gets."""

    def __init__(
        self, placeholders: Mapping[str, str], secrets: Secrets, authority: Authority | None
    ) -> None:
        self.secrets = secrets
        self.authority = authority
        self._placeholders = placeholders

    @classmethod
    def make(cls, directory: Path, name: str, given: Sequence[Secret]) -> SandboxSecrets:
        """With the placeholders and the authority that the sandbox had before, if it had."""
        from crucible.network.secrets import Secrets

        known = _known_placeholders(directory)
        secrets = Secrets(given, known)
        placeholders = {**known, **secrets.placeholders}
        if placeholders != known:
            _write(directory / PLACEHOLDERS_NAME, json.dumps(placeholders))
        authority = _authority(directory, name) if secrets else None
        return cls(placeholders, secrets, authority)

    @property
    def variables(self) -> dict[str, str]:
        found = {**self._placeholders, **self.secrets.variables}
        if self.authority is not None:
            from crucible.network.authority import trust_variables

            found |= trust_variables(BUNDLE_PATH.decode())
        return found

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those of which there is only the placeholder: whoever knew the values has ended."""
        known = self.secrets.placeholders
        return tuple(name for name in self._placeholders if name not in known)

    async def teach(self, files: Files) -> None:
        """Lets programs inside trust the authority, beside those that they trust already."""
        if self.authority is None:
            return
        own = self.authority.certificate.encode()
        known = b""
        for path in _SYSTEM_BUNDLES:
            if known := await _read(files, path):
                break
        await files.write(BUNDLE_PATH, known.rstrip() + b"\n" + own, make_parents=True)


def copy_secrets(source: Path, target: Path) -> None:
    """A copy of a sandbox has its placeholders in memory and trusts its authority."""
    for name in (PLACEHOLDERS_NAME, AUTHORITY_NAME):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
            (target / name).chmod(0o600)


def parse_given(values: object) -> list[Secret]:
    """What a client sends beside a specification. Raises BadSetting, with no value in it."""
    from crucible.network.secrets import bind

    if values is None:
        return []
    if not isinstance(values, list):
        raise BadSetting("The request's secrets are not a list")
    found = []
    for item in values:
        if not isinstance(item, dict) or not all(isinstance(text, str) for text in item.values()):
            raise BadSetting("A secret of the request is not made of texts")
        found.append(
            bind(
                item.get("name", ""),
                item.get("value", ""),
                item.get("host", ""),
                item.get("header", ""),
            )
        )
    return found


def bindings(secrets: Sequence[Secret]) -> tuple[str, ...]:
    """What may be written down: which name is bound to which host."""
    return tuple(
        f"{secret.name}:{secret.host.text}{f':{secret.header}' if secret.header else ''}"
        for secret in secrets
    )


def as_request(texts: Sequence[str], environment: Mapping[str, str]) -> list[dict[str, str]]:
    """Secrets as a person writes them, with their values, for a request."""
    from crucible.network.secrets import parse_secret

    return [
        {
            "name": secret.name,
            "value": secret.value,
            "host": secret.host.text,
            "header": secret.header,
        }
        for secret in (parse_secret(text, environment) for text in texts)
    ]


def _known_placeholders(directory: Path) -> dict[str, str]:
    path = directory / PLACEHOLDERS_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise StateDamaged(f"{path} is not readable", hint="Remove it and start again") from None
    return {str(name): str(value) for name, value in found.items()}


def _authority(directory: Path, name: str) -> Authority:
    from crucible.network.authority import Authority

    path = directory / AUTHORITY_NAME
    try:
        return Authority.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        authority = Authority.make(name)
        _write(path, authority.dump())
        return authority
    except (OSError, ValueError):
        raise StateDamaged(f"{path} is not readable", hint="Remove it and start again") from None


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    aside.replace(path)


async def _read(files: Files, path: bytes) -> bytes:
    data = b""
    try:
        async for piece in files.read(path, length=_MOST_BUNDLE_BYTES):
            data += piece
    except GuestRefused:
        return b""
    return data
