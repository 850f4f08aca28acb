"""Secrets are recognised; ordinary talk about them is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.memory.secrecy import is_secret


@pytest.mark.parametrize(
    "text",
    [
        "My password is hunter2",
        "the passphrase for the laptop is correct horse",
        "password: hunter2",
        "my PIN is 4711",
        "API_KEY=abcdef",
        "use sk-proj-abcdefgh12345678",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
        "postgres://me:s3cret@db/x",
        "Authorization: Bearer abcdefghijkl1234",
        "4111 1111 1111 1111",
        "my social is 078-05-1120",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
        "my recovery code is 1234-5678",
        "x" * 20_001,
    ],
)
def test_a_secret_is_seen(text: str) -> None:
    assert is_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "Never write passwords into configuration files",
        "I use a password manager",
        "Lives in Porto",
        "Was born on 14 March 1988",
        "Their phone number is +351 912 345 678",
        "Prefers snake_case_names_that_are_rather_long",
        "The repository is at src/crucible/memory/settling.py",
        "Has to support Python 3.11",
        "Works on the authentication token service",
    ],
)
def test_ordinary_talk_is_not(text: str) -> None:
    assert not is_secret(text)


@given(st.text(max_size=2000))
def test_any_text_is_judged(text: str) -> None:
    assert is_secret(text) in (True, False)
