"""The key with which this state directory signs: made at first use, kept for its user alone."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from crucible.errors import KeyUnusable

_MAX_BYTES = 4096
_OTHERS = 0o077


class PublicKey:
    """Checks signatures. `id` is the SHA-256 of its 32 bytes."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.id = hashlib.sha256(raw).hexdigest()

    def __repr__(self) -> str:
        return f"PublicKey({self.id!r})"

    def verifies(self, signature: bytes, message: bytes) -> bool:
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def pem(self) -> str:
        return self._key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode()


class SigningKey:
    """Signs; nothing of it is ever shown."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    def __repr__(self) -> str:
        return f"SigningKey({self.public.id!r})"

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def key_path(home: Path) -> Path:
    return home / "keys" / "ledger.pem"


def own_key(home: Path) -> SigningKey:
    """The one of this state directory, made now if there is none yet."""
    path = key_path(home)
    if not path.exists():
        _create(path)
    data = _read(path)
    if path.stat().st_mode & _OTHERS:
        raise KeyUnusable(str(path), f"others can read it; run `chmod 600 {path}` if none has")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyUnusable(str(path), "it is no private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyUnusable(str(path), "it is no Ed25519 key")
    return SigningKey(key)


def own_public_key(home: Path) -> PublicKey:
    """To check with; none is made for that."""
    path = key_path(home)
    if not path.exists():
        raise KeyUnusable(str(path), "nothing was signed here yet; name another with `--key FILE`")
    return own_key(home).public


def read_public_key(path: Path) -> PublicKey:
    return parse_public_key(_read(path), str(path))


def parse_public_key(data: bytes, place: str) -> PublicKey:
    """`place` is where it came from, for who is told that it is none."""
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyUnusable(place, "it is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyUnusable(place, "it is no Ed25519 key")
    return PublicKey(key)


def _create(path: Path) -> None:
    """Whoever comes first makes it: a link is never put over what is there."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise KeyUnusable(str(path), error.strerror or "it cannot be read") from None
    if len(data) > _MAX_BYTES:
        raise KeyUnusable(str(path), f"it is larger than {_MAX_BYTES} bytes")
    return data
