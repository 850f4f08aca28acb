"""What a sandbox's specification means for its network."""

from __future__ import annotations

import pytest

from crucible.sandbox.doors.egress import _policy
from crucible.sandbox.spec import SandboxSpec


@pytest.mark.parametrize(
    "binding, port",
    [
        ("TOKEN:api.example.org", 443),
        ("TOKEN:api.example.org:X-Api-Key", 443),
        ("TOKEN:api.example.org:8443", 8443),
        ("TOKEN:api.example.org:8443:X-Api-Key", 8443),
    ],
)
def test_a_secret_brings_the_rule_for_its_host(binding: str, port: int) -> None:
    policy = _policy(SandboxSpec(network="allowlist", secrets=(binding,)))
    assert policy.decide("api.example.org", "", port).allowed
    assert not policy.decide("other.example.org", "", port).allowed


def test_a_secret_opens_nothing_where_the_network_is_off_or_its_host_denied() -> None:
    secrets = ("TOKEN:api.example.org",)
    off = _policy(SandboxSpec(network="off", secrets=secrets))
    denied = _policy(SandboxSpec(network="full", secrets=secrets, deny=("*.example.org",)))
    for policy in (off, denied):
        assert not policy.decide("api.example.org", "", 443).allowed
