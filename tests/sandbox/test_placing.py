"""Where a sandbox goes: here if anything works, elsewhere only for who asked for it, and never for a user's mistake."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from crucible.config import Provider
from crucible.errors import (
    BackendUnknown,
    BackendUnusable,
    BadSetting,
    BootFailed,
    CrucibleError,
    IsolationUnmet,
    PrerequisiteMissing,
    Unsupported,
)
from crucible.images.catalog import Image
from crucible.sandbox.backend import Backend, Missing, RemoteBackend
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.machines import Machines
from crucible.sandbox.placing import Placement, may_be_remote, place, place_instead
from crucible.sandbox.spec import SandboxSpec


class Here:
    name = "qemu-tcg"
    is_remote = False

    def __init__(self, missing: str = "", *, is_prerequisite: bool = False) -> None:
        self._missing = missing
        self._is_prerequisite = is_prerequisite

    async def isolation(self) -> Isolation:
        return Isolation.SOFTWARE_VM

    async def is_worth_trying(self) -> bool:
        return True

    async def probe(self) -> Missing | None:
        if not self._missing:
            return None
        return Missing(what=self._missing, fix="mend it", is_prerequisite=self._is_prerequisite)


class There(Here):
    name = "remote_e2b"
    is_remote = True

    async def isolation(self) -> Isolation:
        return Isolation.HARDWARE_VM

    def check(self, spec: SandboxSpec) -> None:
        if spec.secrets:
            raise Unsupported("no secrets there")

    def may_run(self, directory: Path) -> bool:
        return False

    def image(self, name: str) -> Image:
        raise NotImplementedError


def machines(
    here: Here, there: There | None = None, provider: Provider = "auto", *, falls_back: bool = False
) -> Machines:
    remote = None if there is None else lambda: cast(RemoteBackend, there)
    return Machines([cast(Backend, here)], remote=remote, provider=provider, falls_back=falls_back)


def placed(own: Machines, **settings: Any) -> Placement:
    return asyncio.run(place(own, SandboxSpec(**settings)))


BROKEN = Here("no emulator")


def test_a_machine_of_this_host_goes_first() -> None:
    providers: tuple[Provider, ...] = ("auto", "local_microvm")
    for provider in providers:
        found = placed(machines(Here(), There(), provider, falls_back=True))
        assert (found.backend.name, found.isolation) == ("qemu-tcg", "software-vm")
        assert found.why == "local_microvm: the strongest machine that works here"


def test_without_a_word_nothing_goes_elsewhere() -> None:
    own = machines(BROKEN, There())
    assert not may_be_remote(own, SandboxSpec())
    with pytest.raises(BackendUnusable, match="no emulator"):
        placed(own)


@pytest.mark.parametrize("is_prerequisite", [True, False])
def test_what_this_host_lacks_sends_it_elsewhere_with_the_reason(is_prerequisite: bool) -> None:
    broken = Here("no emulator", is_prerequisite=is_prerequisite)
    found = placed(machines(broken, There(), falls_back=True))
    assert (found.backend.name, found.isolation) == ("remote_e2b", "hardware-vm (claimed)")
    assert found.why.startswith("remote_e2b: no machine works here")
    assert "no emulator" in found.why


@pytest.mark.parametrize(
    "settings",
    [
        {"provider": "auto"},
        {"fallback": "remote"},
        {"provider": "local_microvm", "fallback": "remote"},
    ],
)
def test_a_sandbox_can_ask_for_it_by_itself(settings: dict[str, str]) -> None:
    assert placed(machines(BROKEN, There()), **settings).backend.name == "remote_e2b"


@pytest.mark.parametrize(
    "settings", [{"fallback": "never"}, {"provider": "local_microvm"}, {"backend": "qemu-tcg"}]
)
def test_strict_is_strict(settings: dict[str, str]) -> None:
    with pytest.raises(CrucibleError, match="no emulator"):
        placed(machines(BROKEN, There(), "auto", falls_back=True), **settings)


@pytest.mark.parametrize("settings", [{}, {"provider": "remote_e2b"}, {"backend": "remote_e2b"}])
def test_the_remote_is_taken_when_it_is_named(settings: dict[str, str]) -> None:
    provider: Provider = "auto" if settings else "remote_e2b"
    found = placed(machines(Here(), There(), provider), **settings)
    assert found.why == "remote_e2b: it was asked for"


def test_a_named_remote_that_does_not_work_is_not_replaced_by_a_machine_here() -> None:
    with pytest.raises(BackendUnusable, match="no key"):
        placed(machines(Here(), There("no key"), "remote_e2b"))
    with pytest.raises(PrerequisiteMissing, match="no package"):
        placed(machines(Here(), There("no package", is_prerequisite=True), "remote_e2b"))
    with pytest.raises(BackendUnknown):
        placed(machines(Here(), None, "remote_e2b"))


def test_if_neither_works_both_reasons_are_told() -> None:
    with pytest.raises(BackendUnusable) as refused:
        placed(machines(BROKEN, There("no key"), falls_back=True))
    assert "no emulator" in refused.value.message
    assert "no key" in refused.value.message


def test_what_cannot_be_kept_elsewhere_is_refused_there_too() -> None:
    with pytest.raises(BackendUnusable, match="no secrets there"):
        placed(machines(BROKEN, There(), falls_back=True), secrets=("A:example.org",))
    with pytest.raises(Unsupported, match="no secrets there"):
        placed(machines(Here(), There(), "remote_e2b"), secrets=("A:example.org",))


def test_too_weak_a_machine_is_no_reason_to_go_elsewhere() -> None:
    with pytest.raises(IsolationUnmet):
        placed(machines(Here(), There(), falls_back=True), min_isolation=Isolation.HARDWARE_VM)


def test_a_machine_that_fails_to_start_is_tried_elsewhere_only_where_that_is_allowed() -> None:
    failed = BootFailed("it did not come up")
    own = machines(Here(), There(), falls_back=True)
    found = asyncio.run(place_instead(own, SandboxSpec(), failed))
    assert "it did not come up" in found.why
    for spec in (SandboxSpec(fallback="never"), SandboxSpec(backend="qemu-tcg")):
        with pytest.raises(BootFailed):
            asyncio.run(place_instead(own, spec, failed))


@pytest.mark.parametrize(
    "settings",
    [
        {"provider": "cloud"},
        {"fallback": "sometimes"},
        {"provider": "remote_e2b", "backend": "qemu-tcg"},
        {"provider": "local_microvm", "backend": "remote_e2b"},
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(BadSetting):
        SandboxSpec(**settings)  # type: ignore[arg-type]
