"""The key is made once, is for its user alone, and is never shown."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from crucible.errors import KeyUnusable
from crucible.ledger.keys import key_path, own_key, own_public_key, read_public_key


def test_it_is_made_once_whoever_asks_at_the_same_time(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(own_key(tmp_path).public.id)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [own_key(tmp_path).public.id] * 8
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["ledger.pem"]


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    key = own_key(tmp_path)
    path = key_path(tmp_path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "PRIVATE" not in f"{key!r} {key.public!r} {key.public.pem()}"
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="others can read it"):
        own_key(tmp_path)


def test_none_is_made_to_check_with(tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable, match="--key"):
        own_public_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert own_key(tmp_path).public.id == own_public_key(tmp_path).id


def test_a_public_key_is_read_from_what_was_printed(tmp_path: Path) -> None:
    key = own_key(tmp_path)
    (tmp_path / "key.pem").write_text(key.public.pem())
    read = read_public_key(tmp_path / "key.pem")
    assert read.id == key.public.id
    assert read.verifies(key.sign(b"message"), b"message")
    assert not read.verifies(key.sign(b"message"), b"another")
    assert not read.verifies(b"", b"message")


def test_what_is_no_such_key_is_refused(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    public = other.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    path = tmp_path / "keys" / "ledger.pem"
    path.parent.mkdir(mode=0o700)
    for content in (b"", b"nonsense", public, b"x" * 5000, locked):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(KeyUnusable, match=r"ledger\.pem"):
            own_key(tmp_path)
        with pytest.raises(KeyUnusable, match=r"ledger\.pem"):
            read_public_key(path)
    with pytest.raises(KeyUnusable, match="No such file"):
        read_public_key(tmp_path / "nowhere.pem")
