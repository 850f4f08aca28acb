"""Secrets at rest: sealed with a key that lies in a file of its own, so that a copy of the database opens none.

Each is bound to whose it is and what it is for: a row that is moved to another user opens for nobody.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from crucible.errors import SecretUnreadable

_KEY_BYTES = 32
_NONCE_BYTES = 12
_OTHERS = 0o077
_FORMAT = b"\x01"


class Seal:
    """The key is made at first use, for this user of the machine alone."""

    def __init__(self, home: Path) -> None:
        self._path = home / "keys" / "settings.key"
        self._key: bytes | None = None

    def __repr__(self) -> str:
        return f"Seal({str(self._path)!r})"

    def close(self, text: str, *, bound_to: tuple[str, ...]) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(self._own_key()).encrypt(nonce, text.encode(), _binding(bound_to))
        return _FORMAT + nonce + sealed

    def open(self, sealed: bytes, *, bound_to: tuple[str, ...]) -> str:
        """Raises SecretUnreadable."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        start = len(_FORMAT) + _NONCE_BYTES
        nonce, rest = sealed[len(_FORMAT) : start], sealed[start:]
        if sealed[:1] != _FORMAT:
            raise SecretUnreadable(str(self._path), "it is of another version")
        try:
            return AESGCM(self._own_key()).decrypt(nonce, rest, _binding(bound_to)).decode()
        except (InvalidTag, ValueError):
            raise SecretUnreadable(str(self._path), "it was sealed with another key") from None

    def _own_key(self) -> bytes:
        if self._key is None:
            if not self._path.exists():
                _create(self._path)
            self._key = self._read()
        return self._key

    def _read(self) -> bytes:
        try:
            data = self._path.read_bytes()
            mode = self._path.stat().st_mode
        except OSError as error:
            raise SecretUnreadable(str(self._path), error.strerror or "it is gone") from None
        if mode & _OTHERS:
            raise SecretUnreadable(str(self._path), "others can read it; run `chmod 600` on it")
        if len(data) != _KEY_BYTES:
            raise SecretUnreadable(str(self._path), f"it has not {_KEY_BYTES} bytes")
        return data


def _binding(words: tuple[str, ...]) -> bytes:
    return b"\0".join(word.encode() for word in words)


def _create(path: Path) -> None:
    """Whoever comes first makes it: a link is never put over what is there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink()
