"""Which backend is chosen: the strongest that works, never below what was asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from crucible.errors import (
    BackendUnknown,
    BackendUnusable,
    IsolationUnmet,
    PrerequisiteMissing,
)
from crucible.sandbox.backend import KeepsMachines, Missing
from crucible.sandbox.choice import choose_backend
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.spec import SandboxSpec


class Stand:
    """A backend that only says what it is; it counts how often it was tried."""

    def __init__(
        self,
        name: str,
        isolation: Isolation,
        *,
        missing: str = "",
        is_prerequisite: bool = False,
        is_worth_trying: bool = True,
    ) -> None:
        self.name = name
        self.probes = 0
        self._isolation = isolation
        self._missing = missing
        self._is_prerequisite = is_prerequisite
        self._is_worth_trying = is_worth_trying

    async def isolation(self) -> Isolation:
        return self._isolation

    async def is_worth_trying(self) -> bool:
        return self._is_worth_trying

    async def probe(self) -> Missing | None:
        self.probes += 1
        if not self._missing:
            return None
        return Missing(
            what=self._missing, fix=f"mend {self.name}", is_prerequisite=self._is_prerequisite
        )


def hardware(**given: Any) -> Stand:
    return Stand("hard", Isolation.HARDWARE_VM, **given)


def software(**given: Any) -> Stand:
    return Stand("soft", Isolation.SOFTWARE_VM, **given)


def chosen(backends: list[Stand], **settings: Any) -> tuple[str, Isolation]:
    found, isolation = asyncio.run(
        choose_backend(cast(list[KeepsMachines], backends), SandboxSpec(**settings))
    )
    return found.name, isolation


def test_the_strongest_that_works_is_taken() -> None:
    assert chosen([hardware(), software()]) == ("hard", Isolation.HARDWARE_VM)


def test_one_that_does_not_work_is_passed_over() -> None:
    assert chosen([hardware(missing="no device"), software()])[0] == "soft"


def test_one_that_is_not_worth_trying_is_not_even_tried() -> None:
    idle = hardware(is_worth_trying=False)
    assert chosen([idle, software()])[0] == "soft"
    assert idle.probes == 0


def test_nothing_weaker_than_asked_for_is_taken_or_tried() -> None:
    weak = software()
    with pytest.raises(IsolationUnmet) as refused:
        chosen([hardware(missing="no device"), weak], min_isolation=Isolation.HARDWARE_VM)
    assert weak.probes == 0
    assert "'hardware-vm'" in refused.value.message
    assert "'software-vm'" in refused.value.message


def test_by_default_nothing_weaker_than_a_machine_is_taken() -> None:
    with pytest.raises(IsolationUnmet):
        chosen([Stand("thin", Isolation.NAMESPACE)])


def test_a_weaker_one_is_taken_when_it_is_allowed() -> None:
    thin = Stand("thin", Isolation.NAMESPACE)
    assert chosen([thin], min_isolation=Isolation.NAMESPACE)[0] == "thin"


def test_the_one_named_is_taken_though_a_stronger_one_works() -> None:
    assert chosen([hardware(), software()], backend="soft")[0] == "soft"


def test_the_one_named_is_tried_even_if_it_is_hardly_worth_it() -> None:
    assert chosen([hardware(is_worth_trying=False)], backend="hard")[0] == "hard"


def test_the_one_named_is_never_replaced_by_another() -> None:
    with pytest.raises(BackendUnusable) as refused:
        chosen([hardware(missing="no device"), software()], backend="hard")
    assert "no device" in refused.value.message
    assert refused.value.hint == "mend hard"


def test_the_one_named_must_be_strong_enough() -> None:
    with pytest.raises(IsolationUnmet):
        chosen([software()], backend="soft", min_isolation=Isolation.HARDWARE_VM)


def test_an_unknown_one_is_refused_with_those_there_are() -> None:
    with pytest.raises(BackendUnknown) as refused:
        chosen([hardware(), software()], backend="nosuch")
    assert "auto, hard, soft" in refused.value.hint


def test_when_none_works_every_reason_is_told() -> None:
    with pytest.raises(BackendUnusable) as refused:
        chosen([hardware(missing="no device"), software(missing="no program")])
    assert "hard: no device; soft: no program" in refused.value.message


@pytest.mark.parametrize("backend", ["auto", "soft"])
def test_a_program_that_can_be_installed_is_asked_for_with_its_command(backend: str) -> None:
    lacking = software(missing="no program", is_prerequisite=True)
    with pytest.raises(PrerequisiteMissing) as refused:
        chosen([hardware(missing="no device"), lacking], backend=backend)
    assert (refused.value.message, refused.value.hint) == ("no program", "mend soft")
