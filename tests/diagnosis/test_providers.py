"""The diagnosis says of each provider what is so, and where a sandbox would go."""

from __future__ import annotations

import asyncio

import pytest
from tests.sandbox.test_placing import BROKEN, Here, There, machines

from crucible.config import Provider
from crucible.diagnosis.check import Check
from crucible.diagnosis.providers import check_choice, check_remote
from crucible.sandbox.machines import Machines


def remote(own: Machines) -> Check:
    return asyncio.run(check_remote(own))


def choice(own: Machines) -> Check:
    return asyncio.run(check_choice(own))


def test_a_provider_that_answers_is_told_with_its_claim() -> None:
    found = remote(machines(Here(), There()))
    assert "claims" in found.finding


@pytest.mark.parametrize("provider, status", [("auto", "warn"), ("remote_e2b", "fail")])
def test_one_that_does_not_is_a_failure_only_for_who_wants_no_other(
    provider: Provider, status: str
) -> None:
    found = remote(machines(Here(), There("no key"), provider))
    assert (found.status, "no key" in found.finding) == (status, True)


def test_the_choice_is_told_with_its_reason() -> None:
    found = choice(machines(Here(), There(), "auto", falls_back=True))
    assert "qemu-tcg is taken" in found.finding
    found = choice(machines(BROKEN, There(), "auto", falls_back=True))
    assert "remote_e2b is taken" in found.finding
    assert "no emulator" in found.finding
    found = choice(machines(BROKEN, There()))
    assert (found.status, "without a fallback" in found.finding) == ("fail", True)
